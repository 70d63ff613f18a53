// Whether runs of other frameworks fit a machine, and what is offered where they do not. Facts: model states of
// DeepSpeed (arXiv 1910.02054), public reports of runs that did not fit.
#include "simulator/profiles/profile_choice.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/models/model_testing.h"

namespace zeroplan::simulator {
namespace {

using planner::Verdict;

models::Model llama_8b() {
  return models::model_of(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256})");
}

planner::TrainingSpec deepspeed(std::uint64_t gpus) {
  planner::TrainingSpec spec;
  spec.framework = planner::Framework::kDeepspeed;
  spec.gpus = gpus;
  spec.seq = 1024;
  return spec;
}

planner::FixedDecisions fixed(std::uint64_t stage) {
  planner::FixedDecisions decisions;
  decisions.stage = stage;
  decisions.micro_batch = 1;
  decisions.recompute = planner::Recompute::kFull;
  decisions.offload_optimizer = planner::Offload{};
  decisions.offload_param = planner::Offload{};
  return decisions;
}

const ProfileAlternative* offer_of(const ProfileChoice& choice, const Json& change) {
  const auto it = std::find_if(choice.alternatives.begin(), choice.alternatives.end(),
                               [&](const ProfileAlternative& a) { return a.change == change; });
  return it == choice.alternatives.end() ? nullptr : &*it;
}

TEST(ProfileChoice, EightBillionNeedTheHostOnTwoCardsOf40GB) {
  const planner::Machine machine = planner::parse_machine("gpus=2,gpu=39.4GiB,host=256GiB");
  const ProfileChoice choice = choose_profile(llama_8b(), machine, deepspeed(2), fixed(2));
  EXPECT_EQ(choice.need.fit.verdict, Verdict::kNo);
  EXPECT_EQ(choice.need.fit.limit, planner::Tier::kDevice);
  const ProfileAlternative* offer = offer_of(choice, {{"offload_optimizer", "cpu"}});
  ASSERT_NE(offer, nullptr);
  EXPECT_NE(offer->need.fit.verdict, Verdict::kNo);
  EXPECT_EQ(choice.why.front().rfind("device", 0), 0U);
}

TEST(ProfileChoice, OpenDecisionsAreTakenAndNeedNoAlternatives) {
  const planner::Machine machine = planner::parse_machine("gpus=8,gpu=60GiB,host=2TiB");
  planner::FixedDecisions open;
  open.micro_batch = 1;
  const ProfileChoice choice = choose_profile(llama_8b(), machine, deepspeed(8), open);
  EXPECT_EQ(choice.need.fit.verdict, Verdict::kYes);
  EXPECT_GT(choice.strategy.stage, 0U);
  EXPECT_TRUE(choice.alternatives.empty());
}

TEST(ProfileChoice, WhatTheUserFixedStays) {
  const planner::Machine machine = planner::parse_machine("gpus=2,gpu=39.4GiB,host=256GiB");
  const ProfileChoice choice = choose_profile(llama_8b(), machine, deepspeed(2), fixed(2));
  EXPECT_EQ(choice.strategy.stage, 2U);
  EXPECT_FALSE(choice.strategy.offload_optimizer.any());
}

TEST(ProfileChoice, HostIsTightBelowDeepspeedsOwnEstimate) {
  planner::FixedDecisions all_on_host = fixed(3);
  all_on_host.offload_optimizer = all_on_host.offload_param = planner::Offload{planner::OffloadPlace::kCpu, 1};
  const Bytes states = profile_need(llama_8b(), planner::parse_machine("gpus=1,gpu=80GiB,host=1TiB"), deepspeed(1),
                                    all_on_host.over_defaults())
                           .host;
  planner::Machine machine = planner::parse_machine("gpus=1,gpu=80GiB,host=1TiB");
  machine.host_bytes = Bytes(states.count() * 5 / 4);
  const ProfileChoice choice = choose_profile(llama_8b(), machine, deepspeed(1), all_on_host);
  EXPECT_EQ(choice.need.fit.verdict, Verdict::kTight);
  EXPECT_EQ(choice.need.fit.limit, planner::Tier::kHost);
  EXPECT_NE(choice.why.front().find("host"), std::string::npos);
}

TEST(ProfileChoice, UnknownActivationsAreNoYes) {
  const models::Model model =
      models::model_of(R"({"model_type": "deberta-v2", "architectures": ["DebertaV2ForMaskedLM"]})");
  planner::TrainingSpec spec = deepspeed(1);
  spec.framework = planner::Framework::kPytorch;
  spec.precision = planner::Precision::kFp32;
  const ProfileChoice choice =
      choose_profile(model, planner::parse_machine("gpus=1,gpu=80GiB,host=1TiB"), spec, planner::FixedDecisions{});
  EXPECT_EQ(choice.need.fit.verdict, Verdict::kTight);
}

}  // namespace
}  // namespace zeroplan::simulator
