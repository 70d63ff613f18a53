#include "reports/exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/deepspeed/accelerate_config.h"
#include "planner/deepspeed/check.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::reports {
namespace {

using planner::Framework;
using planner::OffloadPlace;
using planner::Precision;
using planner::Strategy;
using ::testing::HasSubstr;

class Exports : public ::testing::Test {
 protected:
  Exports() {
    training.gpus = 4;
    training.seq = 32;
    strategy.stage = 3;
    strategy.micro_batch = 2;
    strategy.accumulation = 3;
    strategy.reduce_bucket_size = 1001;
    strategy.allgather_bucket_size = 1001;
  }

  ExportSource source() const { return {model, machine, training, strategy, {"predicted: 1 GiB"}, std::nullopt}; }
  Json deepspeed() const { return Json::parse(deepspeed_config_text(source())); }
  /// Errors and warnings that `zeroplan check` finds in the exported file.
  std::vector<planner::deepspeed::Finding> findings() const {
    planner::deepspeed::CheckInput input;
    input.config_file = "exported.json";
    input.config_text = deepspeed_config_text(source());
    input.training = training;
    const auto report = planner::deepspeed::check(input);
    std::vector<planner::deepspeed::Finding> found;
    for (const auto& finding : report.findings) {
      if (finding.severity != planner::deepspeed::Severity::kInfo) found.push_back(finding);
    }
    return found;
  }

  models::Model model = testing::tiny_model(testing::llama_config());
  planner::Machine machine = testing::test_machine(4);
  planner::TrainingSpec training;
  Strategy strategy;
};

TEST_F(Exports, DeepspeedFilePassesItsOwnCheckAtEveryStageAndPrecision) {
  for (std::uint64_t stage = 0; stage <= 3; ++stage) {
    for (const auto& [precision, name] : planner::kNamesOf<Precision>) {
      for (const OffloadPlace place : {OffloadPlace::kNone, OffloadPlace::kCpu}) {
        strategy.stage = stage;
        training.precision = precision;
        strategy.offload_optimizer = {stage > 0 ? place : OffloadPlace::kNone, 1};
        strategy.offload_param = {stage == 3 ? place : OffloadPlace::kNone, 1};
        const auto found = findings();
        EXPECT_TRUE(found.empty()) << "stage " << stage << ", " << name << ": " << found.front().message;
      }
    }
  }
}

TEST_F(Exports, DeepspeedFileHasTheDecisions) {
  strategy.offload_optimizer = {OffloadPlace::kCpu, 0.5};
  strategy.offload_param = {OffloadPlace::kNvme, 1};
  const Json config = deepspeed();
  EXPECT_EQ(config["train_batch_size"], 24);
  EXPECT_EQ(config["train_micro_batch_size_per_gpu"], 2);
  EXPECT_EQ(config["gradient_accumulation_steps"], 3);
  const Json& zero = config["zero_optimization"];
  EXPECT_EQ(zero["stage"], 3);
  EXPECT_EQ(zero["reduce_bucket_size"], 1001);
  EXPECT_EQ(zero["allgather_bucket_size"], 1000) << "DeepSpeed wants it even";
  EXPECT_EQ(zero["stage3_max_live_parameters"], strategy.max_live_parameters);
  EXPECT_EQ(zero["offload_optimizer"]["ratio"], 0.5);
  EXPECT_EQ(zero["offload_param"]["device"], "nvme");
  EXPECT_TRUE(zero["offload_param"].contains("nvme_path"));
  EXPECT_EQ(config["bf16"]["enabled"], true);
  EXPECT_EQ(config["zeroplan"]["predictions"][0], "predicted: 1 GiB");
}

TEST_F(Exports, StagesBelowThreeHaveNoKeysOfStageThree) {
  strategy.stage = 2;
  EXPECT_FALSE(deepspeed()["zero_optimization"].contains("stage3_prefetch_bucket_size"));
  strategy.stage = 0;
  EXPECT_EQ(deepspeed()["zero_optimization"], (Json{{"stage", 0}}));
}

TEST_F(Exports, UntestedOptimizersAreAllowedExplicitly) {
  training.optimizer = planner::OptimizerKind::kAdafactor;
  EXPECT_EQ(deepspeed()["zero_allow_untested_optimizer"], true);
  EXPECT_FALSE(deepspeed().contains("optimizer"));
  EXPECT_THAT(export_notes(source()).front(), HasSubstr("adafactor"));
}

TEST_F(Exports, AccelerateReadsTheDeepspeedFileAndThenSaysNothingTwice) {
  ExportSource with_file = source();
  with_file.deepspeed_file = "ds config.json";
  const auto config = planner::deepspeed::read_accelerate_config(accelerate_config_text(with_file));
  EXPECT_TRUE(config.problems.empty());
  EXPECT_EQ(config.text_or("distributed_type", ""), "DEEPSPEED");
  EXPECT_EQ(config.find("mixed_precision"), nullptr);
  ASSERT_NE(config.deepspeed_section(), nullptr);
  EXPECT_EQ(config.deepspeed_section()->at("deepspeed_config_file"), "ds config.json");
  EXPECT_FALSE(config.deepspeed_section()->contains("zero_stage"));
}

TEST_F(Exports, AccelerateWithoutAFileHasTheStageInline) {
  strategy.offload_optimizer = {OffloadPlace::kCpu, 1};
  const auto config = planner::deepspeed::read_accelerate_config(accelerate_config_text(source()));
  EXPECT_TRUE(config.problems.empty());
  ASSERT_NE(config.deepspeed_section(), nullptr);
  EXPECT_EQ(config.deepspeed_section()->at("zero_stage"), 3);
  EXPECT_EQ(config.deepspeed_section()->at("offload_optimizer_device"), "cpu");
  EXPECT_EQ(config.deepspeed_section()->at("gradient_accumulation_steps"), 3);
  EXPECT_EQ(*config.find("num_processes"), 4);
  EXPECT_EQ(config.text_or("mixed_precision", ""), "bf16");
}

TEST_F(Exports, AccelerateForFsdp2) {
  training.framework = Framework::kFsdp2;
  strategy.recompute = planner::Recompute::kFull;
  const auto config = planner::deepspeed::read_accelerate_config(accelerate_config_text(source()));
  EXPECT_TRUE(config.problems.empty());
  EXPECT_EQ(config.text_or("distributed_type", ""), "FSDP");
  const Json* fsdp = config.find("fsdp_config");
  ASSERT_NE(fsdp, nullptr);
  EXPECT_EQ(fsdp->at("fsdp_version"), 2);
  EXPECT_EQ(fsdp->at("fsdp_reshard_after_forward"), true);
  EXPECT_EQ(fsdp->at("fsdp_activation_checkpointing"), true);
}

TEST_F(Exports, FsdpSettingsFollowTheStage) {
  EXPECT_THAT(fsdp_settings_text(source()), HasSubstr("reshard_after_forward: true"));
  EXPECT_THAT(fsdp_settings_text(source()), HasSubstr("fsdp_reshard_after_forward: always"));
  EXPECT_THAT(fsdp_settings_text(source()), HasSubstr("global_batch_size: 24"));
  strategy.stage = 2;
  EXPECT_THAT(fsdp_settings_text(source()), HasSubstr("fsdp_reshard_after_forward: never"));
  strategy.stage = 0;
  EXPECT_THAT(fsdp_settings_text(source()), HasSubstr("data_parallel_replicate_degree: 4"));
  EXPECT_THAT(fsdp_settings_text(source()), HasSubstr("# predicted: 1 GiB"));
}

TEST_F(Exports, UnknownKindIsRefused) {
  EXPECT_THROW(parse_export_kind("megatron"), Error);
  EXPECT_EQ(parse_export_kind("fsdp"), ExportKind::kFsdp);
}

}  // namespace
}  // namespace zeroplan::reports
