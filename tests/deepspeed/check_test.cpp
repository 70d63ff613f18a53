#include "planner/deepspeed/check.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "planner/deepspeed/elasticity.h"
#include "planner/deepspeed/hidden_size.h"
#include "planner/deepspeed/loss_scale.h"

namespace zeroplan::planner::deepspeed {
namespace {

CheckInput input_of(const std::string& config, ConfigReader reader = ConfigReader::kDeepspeed, std::uint64_t gpus = 1) {
  CheckInput input;
  input.reader = reader;
  input.config_file = "ds_config.json";
  input.config_text = config;
  input.training.gpus = gpus;
  return input;
}

const Finding* find(const CheckReport& report, const std::string& key, Severity severity) {
  const auto it = std::find_if(report.findings.begin(), report.findings.end(),
                               [&](const Finding& f) { return f.key == key && f.severity == severity; });
  return it == report.findings.end() ? nullptr : &*it;
}

TEST(CheckBatch, FollowsDeepspeedsArithmetic) {
  struct Row {
    const char* config;
    std::uint64_t gpus;
    Json total, micro, steps;
    std::size_t errors;
  };
  const Row rows[] = {{R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4})", 4, 32, 4, 2, 0},
                      {R"({"train_batch_size": 32, "gradient_accumulation_steps": 4})", 4, 32, 2, 4, 0},
                      {R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})", 4, 24, 3, 2, 0},
                      {R"({"train_batch_size": 32})", 4, 32, 8, 1, 0},
                      {R"({"train_micro_batch_size_per_gpu": 3})", 4, 12, 3, 1, 0},
                      {R"({"gradient_accumulation_steps": 3})", 4, nullptr, nullptr, 3, 1},
                      {R"({"train_batch_size": 30})", 4, 30, 7, 1, 1},
                      {R"({"train_batch_size": 2, "train_micro_batch_size_per_gpu": 4})", 1, 2, 4, 0, 1},
                      {R"({"train_batch_size": -8})", 1, -8, nullptr, nullptr, 1}};
  for (const Row& row : rows) {
    const CheckReport report = check(input_of(row.config, ConfigReader::kDeepspeed, row.gpus));
    EXPECT_EQ(report.resolved.train_batch_size, row.total) << row.config;
    EXPECT_EQ(report.resolved.micro_batch_size, row.micro) << row.config;
    EXPECT_EQ(report.resolved.accumulation_steps, row.steps) << row.config;
    EXPECT_EQ(report.count(Severity::kError), row.errors) << row.config;
  }
}

TEST(CheckTrainer, ListsEveryMismatchAndFillsEveryAuto) {
  CheckInput input =
      input_of(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3, "gradient_clipping": "auto",
    "gradient_accumulation_steps": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": 1e-7}},
    "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto", "sub_group_size": 1e9}})",
               ConfigReader::kHfTrainer, 2);
  input.trainer_arguments = {{"per_device_train_batch_size", 4}, {"bf16", true}};
  input.model_config = {{"text_config", {{"hidden_size", 4096}}}};
  const CheckReport report = check(input);
  EXPECT_NE(find(report, "train_micro_batch_size_per_gpu", Severity::kError), nullptr);
  EXPECT_NE(find(report, "optimizer.params.eps", Severity::kError), nullptr);
  EXPECT_EQ(report.count(Severity::kError), 2u);
  const ConfigTree filled(report.filled);
  EXPECT_EQ(*filled.find("train_batch_size"), 8);
  EXPECT_EQ(*filled.find("optimizer.params.betas"), Json::array({0.9, 0.999}));
  EXPECT_EQ(*filled.find("bf16.enabled"), true);
  EXPECT_EQ(*filled.find("zero_optimization.stage3_prefetch_bucket_size"), 15099494);
  EXPECT_TRUE(filled.find("zero_optimization.sub_group_size")->is_number_integer());
}

TEST(CheckTrainer, ABatchMismatchIsReportedOnceNotAgainByTheArithmetic) {
  for (const char* config : {R"({"train_batch_size": 4, "gradient_accumulation_steps": 8, "zero_optimization": {}})",
                             R"({"train_batch_size": 4, "zero_optimization": {"stage": 2}})"}) {
    CheckInput input = input_of(config, ConfigReader::kHfTrainer, 8);
    input.trainer_arguments = {{"per_device_train_batch_size", 1}, {"gradient_accumulation_steps", 8}};
    EXPECT_EQ(check(input).count(Severity::kError), 1u) << config;
  }
}

TEST(CheckKeys, SuggestsWhatWasMeant) {
  const CheckReport report = check(input_of(R"({"train_micro_batch_size_per_gpu": 1, "gradient_cliping": 1,
    "zero_optimization": {"stage": 2, "overlap_com": true, "aio": {}}, "fp16": {"enabled": true, "loss_scal": 0}})"));
  EXPECT_EQ(find(report, "gradient_cliping", Severity::kWarning)->suggest, "gradient_clipping");
  EXPECT_EQ(find(report, "zero_optimization.overlap_com", Severity::kError)->suggest, "overlap_comm");
  EXPECT_EQ(find(report, "fp16.loss_scal", Severity::kError)->suggest, "loss_scale");
  EXPECT_NE(find(report, "zero_optimization.aio", Severity::kError)->message.find("top level"), std::string::npos);
}

TEST(CheckKeys, OldNamesAreReplaced) {
  const CheckReport report =
      check(input_of(R"({"train_batch_size": 1, "zero_optimization": {"stage": 2, "cpu_offload": true,
    "offload_optimizer": {"device": "cpu"}, "cpu_offload_params": true, "stage3_gather_fp16_weights_on_model_save": true},
    "aio": {"thread_count": 1}})"));
  EXPECT_NE(find(report, "zero_optimization.cpu_offload", Severity::kError), nullptr);
  EXPECT_NE(find(report, "zero_optimization.cpu_offload_params", Severity::kError), nullptr);
  EXPECT_NE(find(report, "zero_optimization.stage3_gather_fp16_weights_on_model_save", Severity::kWarning), nullptr);
  EXPECT_NE(find(report, "aio.thread_count", Severity::kWarning), nullptr);
}

TEST(CheckAuto, NobodyFillsItForAPlainEngine) {
  const CheckReport report = check(input_of(R"({"train_batch_size": 1, "gradient_clipping": "auto",
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}, "pipeline": {"stages": "auto"}})"));
  EXPECT_NE(find(report, "gradient_clipping", Severity::kError), nullptr);
  EXPECT_EQ(find(report, "zero_optimization.reduce_bucket_size", Severity::kError)->suggest, 500'000'000);
  EXPECT_EQ(report.count(Severity::kError), 2u);
}

TEST(CheckReading, WhatCannotBeReadIsAFinding) {
  const CheckReport report = check(input_of("{\"a\": "));
  EXPECT_NE(find(report, "json", Severity::kError), nullptr);
  EXPECT_TRUE(report.filled.is_null());
}

TEST(CheckReading, WhatHjsonMisreadsIsAnErrorForDeepspeedToo) {
  const auto json_errors = [](const std::string& config, ConfigReader reader) {
    const CheckReport report = check(input_of(config, reader));
    return find(report, "json", Severity::kError) != nullptr;
  };
  const std::string rest = "\"train_batch_size\": 1, \"zero_optimization\": {\"stage\": 2}}";
  for (const char* wrong : {"{\"dump_state\": True, ", "{\"x\": \"a\tb\", "}) {
    EXPECT_TRUE(json_errors(wrong + rest, ConfigReader::kDeepspeed)) << wrong;
    EXPECT_TRUE(json_errors(wrong + rest, ConfigReader::kHfTrainer)) << wrong;
  }
  for (const char* lenient : {"{\"dump_state\": True\n", "{/* x */ ", "{\"dump_state\": \"a\" "}) {
    EXPECT_FALSE(json_errors(lenient + rest, ConfigReader::kDeepspeed)) << lenient;
    EXPECT_TRUE(json_errors(lenient + rest, ConfigReader::kHfTrainer)) << lenient;
  }
}

TEST(CheckReading, HostileSizesAreFindingsNotCrashes) {
  for (const char* config :
       {R"({"train_batch_size": 1e300})",
        R"({"train_micro_batch_size_per_gpu": 1099511627776, "gradient_accumulation_steps": 1099511627776})",
        R"({"train_batch_size": true})", R"({"zero_optimization": [3]})",
        R"({"optimizer": "AdamW", "train_batch_size": 1, "scheduler": 3, "fp16": 1})",
        R"({"train_batch_size": 1, "fp16": {"enabled": true, "initial_scale_power": 99999999999}})"}) {
    EXPECT_GT(check(input_of(config)).count(Severity::kError), 0u) << config;
  }
}

TEST(LossScale, StepsUntilItStops) {
  EXPECT_EQ(overflow_steps_until_stop(16, 2, 1), 18u);
  EXPECT_EQ(overflow_steps_until_stop(32, 2, 1), 34u);
  EXPECT_EQ(overflow_steps_until_stop(16, 1, 1), 17u);
  EXPECT_EQ(overflow_steps_until_stop(0, 1, 1), 1u);
  EXPECT_EQ(overflow_steps_until_stop(4, 2, 3), 5u);  // 16, 8, 4, 3, stop
  EXPECT_EQ(overflow_steps_until_stop(-1, 2, 1), std::nullopt);
  EXPECT_EQ(overflow_steps_until_stop(16, 2, 0), std::nullopt);
}

TEST(HiddenSize, IsFoundInEveryKindOfConfig) {
  const auto width = [](const char* text) { return find_hidden_size(Json::parse(text)); };
  EXPECT_EQ(width(R"({"hidden_size": 5, "d_model": 6})")->value, 5u);
  EXPECT_EQ(width(R"({"n_embd": 768})")->value, 768u);
  EXPECT_EQ(width(R"({"hidden_sizes": [64, 96, 80], "neck_hidden_sizes": [320]})")->value, 96u);
  EXPECT_EQ(width(R"({"vision_config": {"hidden_size": 1152}, "text_config": {"hidden_sizes": [1, 9]}})")->value, 9u);
  EXPECT_EQ(width(R"({"text_config": {"model_type": "llama"}})")->value, 4096u);
  EXPECT_FALSE(width(R"({"decoder": {"hidden_size": 7}})")->trainer_finds);
  EXPECT_FALSE(width(R"({"text_config": {"hidden_size": 7}})")->accelerate_finds);
  EXPECT_FALSE(width(R"({"decoder_embed_dim": 768})").has_value());
  EXPECT_FALSE(width(R"({"hidden_size": -4})").has_value());
}

TEST(Elasticity, TakesTheBatchWithMostRankCounts) {
  const ElasticBatch best = best_elastic_batch({8, 12, 16, 17}, 10000, 32, 1500, true);
  EXPECT_EQ(best.batch, 9792u);  // DeepSpeed's own documented example
  EXPECT_EQ(best.valid_ranks.size(), 23u);
}

TEST(ErrorLog, AKilledRankIsNamed) {
  CheckInput input;
  input.error_log = "ERROR: failed (exitcode: -9) local_rank: 3 (pid: 77) of binary: python";
  const CheckReport report = check(input);
  ASSERT_NE(find(report, "memory", Severity::kError), nullptr);
  EXPECT_NE(find(report, "memory", Severity::kError)->message.find("rank 3"), std::string::npos);
}

TEST(ErrorLog, ARequestIsTracedToTheLogits) {
  CheckInput input;
  input.error_log = "CUDA out of memory. Tried to allocate 7.83 GiB. GPU 0 has a total capacity of 14.75 GiB";
  input.model_config = {{"hidden_size", 4096}, {"vocab_size", 128256}, {"num_attention_heads", 32}};
  input.training.seq = 16384;
  const CheckReport report = check(input);
  ASSERT_FALSE(report.explanations.empty());
  EXPECT_EQ(report.explanations.front().name, "logits");
  EXPECT_EQ(report.explanations.front().bytes, 8405385216u);
  EXPECT_NEAR(static_cast<double>(*report.explanations.front().tokens), 16384, 10);
}

TEST(ErrorLog, RejectedKeysOfAValidationReportAreNamedWithTheirSection) {
  CheckInput input;
  input.error_log =
      "pydantic_core._pydantic_core.ValidationError: 2 validation errors for DeepSpeedZeroConfig\n"
      "stage3_prefetch_bucket_size\n"
      "  Input should be a valid integer, got a number with a fractional part [type=int_from_float, input_value=1.5]\n"
      "    For further information visit the site\n"
      "stage3_prefetch_size\n"
      "  Extra inputs are not permitted [type=extra_forbidden, input_value=1]\n";
  const CheckReport report = check(input);
  const Finding* first = find(report, "zero_optimization.stage3_prefetch_bucket_size", Severity::kError);
  ASSERT_NE(first, nullptr);
  const Finding* second = find(report, "zero_optimization.stage3_prefetch_size", Severity::kError);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->message, "DeepSpeed rejects stage3_prefetch_size: extra inputs are not permitted");
}

TEST(ErrorLog, FewOverflowsAreNormalAndManyAreNot) {
  CheckInput input;
  const std::string line =
      "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n";
  input.error_log = line + line;
  EXPECT_EQ(check(input).count(Severity::kError), 0u);
  EXPECT_NE(find(check(input), "fp16", Severity::kInfo), nullptr);
  std::string many;
  for (int i = 0; i < 25; ++i) many += line;
  input.error_log = many;
  EXPECT_NE(find(check(input), "fp16", Severity::kError), nullptr);
}

TEST(ErrorLog, KnownMessagesNameTheirKey) {
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"TypeError: '<' not supported between instances of 'str' and 'int'", "zero_optimization"},
      {"TypeError: expected str, bytes or os.PathLike object, not NoneType",
       "zero_optimization.offload_param.nvme_path"},
      {"OSError: Error no file named pytorch_model.bin, model.safetensors found in directory out",
       "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
      {"RuntimeError: CUDA error: invalid device ordinal", "env"},
      {"train.py: error: unrecognized arguments: --local_rank=0", "args"},
      {"ModuleNotFoundError: No module named 'mpi4py'", "env"},
      {"AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'",
       "zero_optimization.offload_optimizer"},
      {"size mismatch for weight: copying a param with shape torch.Size([0]) from checkpoint",
       "zero_optimization.stage"},
  };
  for (const auto& [message, key] : messages) {
    CheckInput input;
    input.error_log = message;
    EXPECT_NE(find(check(input), key, Severity::kError), nullptr) << message;
  }
}

TEST(Check, ReportsOnlyWhatIsInTheLogWhereNothingIsKnown) {
  CheckInput input;
  input.error_log = "nothing of interest";
  const CheckReport report = check(input);
  EXPECT_EQ(report.count(Severity::kError), 0u);
  EXPECT_EQ(report.count(Severity::kWarning), 1u);
}

}  // namespace
}  // namespace zeroplan::planner::deepspeed
