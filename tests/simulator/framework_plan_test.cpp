#include "simulator/framework_plan.h"

#include <bit>

#include <gtest/gtest.h>

#include "simulator/deepspeed_host.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::simulator {
namespace {

using planner::FixedDecisions;
using planner::Framework;
using planner::OffloadPlace;
using planner::Strategy;
using planner::Verdict;

class FrameworkPlans : public ::testing::Test {
 protected:
  FrameworkPlans() {
    training.framework = Framework::kDeepspeed;
    training.gpus = 4;
    training.seq = 16;
    machine = planner::parse_machine("h100");
    machine.gpus = 4;
    machine.context_bytes = Bytes();
  }

  FrameworkRun run() const { return {model, machine, training}; }
  static Strategy stage(std::uint64_t n) {
    Strategy s;
    s.stage = n;
    s.reduce_bucket_size = 1000;  // DeepSpeed's default is larger than the whole model
    return s;
  }

  models::Model model = testing::tiny_model(testing::llama_config());
  planner::Machine machine;
  planner::TrainingSpec training;
};

TEST_F(FrameworkPlans, VerdictFollowsTheBudgetWithItsMargin) {
  const Bytes need = plan_framework(run(), stage(2)).device;
  machine.device_bytes = need * 2;
  EXPECT_EQ(plan_framework(run(), stage(2)).fit.verdict, Verdict::kYes);
  machine.device_bytes = need + need / 20;
  EXPECT_EQ(plan_framework(run(), stage(2)).fit.verdict, Verdict::kTight);
  machine.device_bytes = need - Bytes(1);
  const FrameworkPlan none = plan_framework(run(), stage(2));
  EXPECT_EQ(none.fit.verdict, Verdict::kNo);
  EXPECT_EQ(none.fit.limit, planner::Tier::kDevice);
}

TEST_F(FrameworkPlans, HostThatIsTooSmallIsTheLimit) {
  Strategy s = stage(3);
  s.offload_optimizer = s.offload_gradients = {OffloadPlace::kCpu, 1};
  machine.host_bytes = Bytes(1000);
  const FrameworkPlan plan = plan_framework(run(), s);
  EXPECT_EQ(plan.fit.verdict, Verdict::kNo);
  EXPECT_EQ(plan.fit.limit, planner::Tier::kHost);
}

TEST_F(FrameworkPlans, AlternativesOfWhatDoesNotFitDoFit) {
  const Bytes need = plan_framework(run(), stage(0)).device;
  machine.device_bytes = need - Bytes(1);
  const FrameworkPlan plan = plan_framework(run(), stage(0));
  ASSERT_EQ(plan.fit.verdict, Verdict::kNo);
  const auto alternatives = framework_alternatives(run(), plan);
  ASSERT_FALSE(alternatives.empty());
  std::size_t changes = 0;
  bool has_offload = false;
  for (const FrameworkAlternative& a : alternatives) {
    EXPECT_NE(a.plan.fit.verdict, Verdict::kNo) << a.change.dump();
    EXPECT_FALSE(a.change.empty());
    EXPECT_GE(a.change.size(), changes) << "fewest changes first";
    changes = a.change.size();
    has_offload = has_offload || a.change.contains("offload_optimizer");
  }
  EXPECT_TRUE(has_offload);
}

TEST_F(FrameworkPlans, AlternativesAreTheClosestWhereNothingFits) {
  machine.device_bytes = Bytes(1000);
  const auto alternatives = framework_alternatives(run(), plan_framework(run(), stage(0)));
  ASSERT_FALSE(alternatives.empty());
  EXPECT_LE(alternatives.size(), 5u);
  for (const FrameworkAlternative& a : alternatives) EXPECT_EQ(a.plan.fit.verdict, Verdict::kNo);
}

TEST_F(FrameworkPlans, SearchRanksWhatFitsBySpeedAndKeepsFixedDecisions) {
  FixedDecisions fixed;
  fixed.recompute = planner::Recompute::kFull;
  const FrameworkSearch search = search_framework(run(), fixed, {0, 1, 2, 3}, {1, 2, 4});
  ASSERT_GT(search.ranked.size(), 3u);
  for (std::size_t i = 0; i < search.ranked.size(); ++i) {
    EXPECT_EQ(search.ranked[i].strategy.recompute, planner::Recompute::kFull);
    ASSERT_TRUE(search.ranked[i].step);
    if (i == 0) continue;
    EXPECT_LE(search.ranked[i].step->tokens_per_s, search.ranked[i - 1].step->tokens_per_s * 1.002);
  }
  // DeepSpeed takes parameters and the disk at stage 3 only.
  for (const FrameworkPlan& plan : search.ranked) {
    if (plan.strategy.offload_param.any() || plan.strategy.offload_optimizer.place == OffloadPlace::kNvme) {
      EXPECT_EQ(plan.strategy.stage, 3u);
    }
  }
}

TEST_F(FrameworkPlans, SearchWithoutRatesPrefersNoOffload) {
  machine = planner::parse_machine("gpus=4,gpu=24GiB");
  const FrameworkSearch search = search_framework(run(), {}, {0, 1, 2, 3}, {1});
  ASSERT_FALSE(search.ranked.empty());
  EXPECT_FALSE(search.ranked.front().step);
  EXPECT_EQ(search.ranked.front().strategy.stage, 0u);
  EXPECT_FALSE(search.ranked.front().strategy.offload_optimizer.any());
}

TEST_F(FrameworkPlans, ContradictionsAreRefused) {
  FixedDecisions fixed;
  fixed.offload_param = planner::Offload{OffloadPlace::kCpu, 1};
  EXPECT_THROW(search_framework(run(), fixed, {2}, {1}), Error);
}

TEST_F(FrameworkPlans, LargerMicroBatchesOfWhatDoesNotFitAreLeftOut) {
  machine.device_bytes = Bytes(1000);
  const FrameworkSearch search = search_framework(run(), {}, {3}, {1, 2, 4});
  EXPECT_TRUE(search.ranked.empty());
  EXPECT_EQ(search.left_out, 2 * search.considered);
}

TEST_F(FrameworkPlans, StepGrowsWithRecomputeAndOffload) {
  const auto estimate = [&](const Strategy& s) {
    return *estimate_step(model, trained_parameters(model, training), machine, training, s);
  };
  const auto seconds = [&](const Strategy& s) { return estimate(s).step_s; };
  Strategy s = stage(3);
  const double plain = seconds(s);
  s.recompute = planner::Recompute::kFull;
  EXPECT_NEAR(estimate(s).arithmetic_s, estimate(stage(3)).arithmetic_s * 4 / 3, 1e-12);
  s = stage(3);
  s.offload_optimizer = {OffloadPlace::kCpu, 1};
  const double host = seconds(s);
  EXPECT_GT(host, plain);
  s.offload_optimizer = {OffloadPlace::kNvme, 1};
  EXPECT_GT(seconds(s), host);
}

TEST_F(FrameworkPlans, StepOfOneRankIsItsArithmeticAndUpdate) {
  training.gpus = 1;
  const TrainedParameters trained = trained_parameters(model, training);
  const StepEstimate e = *estimate_step(model, trained, machine, training, stage(0));
  EXPECT_DOUBLE_EQ(e.exposed_comm_s, 0);
  EXPECT_DOUBLE_EQ(e.step_s, e.arithmetic_s + e.update_s);
  // 6 FLOPs per parameter and token, the embedding of 160 x 64 left out; attention 6 x tokens x seq x width x layers.
  const double parameters = static_cast<double>(trained.trainable(model).count()) - 160 * 64;
  const double flops = 16 * (6 * parameters + 6.0 * 16 * 64 * 3);
  EXPECT_NEAR(e.arithmetic_s, flops / machine.rates.bf16_flops.per_second(), 1e-12);
}

TEST_F(FrameworkPlans, HostMemoryHasPinnedBuffersRoundedUp) {
  training.gpus = 1;
  const TrainedParameters trained = trained_parameters(model, training);
  const std::uint64_t n = trained.trainable(model).count();
  Strategy s = stage(2);
  EXPECT_EQ(deepspeed_host_bytes(model, trained, training, s), Bytes());
  s.offload_optimizer = {OffloadPlace::kCpu, 1};
  EXPECT_EQ(deepspeed_host_bytes(model, trained, training, s).count(),
            2 * std::bit_ceil(4 * n) + std::bit_ceil(2 * n) + 8 * n);
  s.stage = 3;
  s.offload_param = {OffloadPlace::kCpu, 1};
  EXPECT_EQ(deepspeed_host_bytes(model, trained, training, s).count(),
            2 * std::bit_ceil(2 * n) + std::bit_ceil(4 * n) + 12 * n);
  // Small sub-groups round up less.
  s.sub_group_size = 1;
  std::uint64_t gradients = 0;
  for (const models::Parameter& p : model.parameters) gradients += std::bit_ceil(4 * p.shape.elements().count());
  EXPECT_EQ(deepspeed_host_bytes(model, trained, training, s).count(), 2 * std::bit_ceil(2 * n) + gradients + 12 * n);
}

}  // namespace
}  // namespace zeroplan::simulator
