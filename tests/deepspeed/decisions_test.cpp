#include "planner/deepspeed/decisions.h"

#include <gtest/gtest.h>

#include "models/core/error.h"

namespace zeroplan::planner::deepspeed {
namespace {

ConfigDecisions read(const char* text, std::uint64_t ranks = 1, const BatchFlags& flags = {}) {
  return read_decisions(text, "ds_config.json", ranks, flags);
}

TEST(ConfigDecisions, TakesStageOffloadSizesPrecisionAndOptimizer) {
  const ConfigDecisions d = read(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": true}, "optimizer": {"type": "Lion"}, "communication_data_type": "bf16",
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5},
      "offload_param": {"device": "cpu"}, "reduce_bucket_size": 5e6, "stage3_prefetch_bucket_size": "1000",
      "param_persistence_threshold": 10, "sub_group_size": 1e8, "max_live_parameters": 7, "max_reuse_distance": 0}})",
                                 4);
  EXPECT_EQ(d.fixed.stage, 3u);
  EXPECT_EQ(d.fixed.micro_batch, 2u);
  EXPECT_EQ(d.fixed.accumulation, 4u);
  EXPECT_EQ(d.fixed.offload_optimizer, (Offload{OffloadPlace::kCpu, 0.5}));
  EXPECT_EQ(d.fixed.offload_param, (Offload{OffloadPlace::kCpu, 1}));
  EXPECT_EQ(d.fixed.reduce_bucket_size, 5'000'000u);
  EXPECT_EQ(d.fixed.prefetch_bucket_size, 1000u);
  EXPECT_EQ(d.fixed.param_persistence_threshold, 10u);
  EXPECT_EQ(d.fixed.sub_group_size, 100'000'000u);
  EXPECT_EQ(d.fixed.max_live_parameters, 7u);
  EXPECT_EQ(d.fixed.max_reuse_distance, 0u);
  EXPECT_EQ(d.fixed.allgather_bucket_size, std::nullopt);
  EXPECT_EQ(d.fixed.recompute, std::nullopt);
  EXPECT_EQ(d.precision, Precision::kBf16Mixed);
  EXPECT_EQ(d.optimizer, OptimizerKind::kLion);
  EXPECT_EQ(d.reduce_dtype, ReduceType::kBf16);
}

TEST(ConfigDecisions, WhatIsAutoIsLeftOpen) {
  const ConfigDecisions d = read(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2,
    "reduce_bucket_size": "auto", "offload_optimizer": {"device": "auto"}}})");
  EXPECT_EQ(d.fixed.stage, 2u);
  EXPECT_EQ(d.fixed.micro_batch, std::nullopt);
  EXPECT_EQ(d.fixed.accumulation, std::nullopt);
  EXPECT_EQ(d.fixed.reduce_bucket_size, std::nullopt);
  EXPECT_EQ(d.fixed.offload_optimizer, std::nullopt);
  EXPECT_EQ(d.fixed.offload_param, Offload{});
  EXPECT_EQ(d.precision, std::nullopt);
}

TEST(ConfigDecisions, OldNamesAndDefaults) {
  const ConfigDecisions d =
      read(R"({"train_batch_size": 4, "optimizer": {"type": "Adam", "params": {"adam_w_mode": false}},
    "zero_optimization": {"stage": 2, "cpu_offload": true}})");
  EXPECT_EQ(d.fixed.offload_optimizer, (Offload{OffloadPlace::kCpu, 1}));
  EXPECT_EQ(d.optimizer, OptimizerKind::kAdam);
  EXPECT_EQ(d.precision, Precision::kFp32);
  EXPECT_EQ(read(R"({"train_batch_size": 4})").fixed.stage, 0u);
}

TEST(ConfigDecisions, FlagsWinOverTheFilesBatchSizes) {
  const char* file =
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})";
  const auto sizes = [&](const BatchFlags& flags) {
    const ConfigDecisions d = read(file, 4, flags);
    return std::pair(d.fixed.micro_batch.value_or(0), d.fixed.accumulation.value_or(0));
  };
  EXPECT_EQ(sizes({}), (std::pair<std::uint64_t, std::uint64_t>{4, 2}));
  EXPECT_EQ(sizes({2, {}, {}}), (std::pair<std::uint64_t, std::uint64_t>{2, 4}));
  EXPECT_EQ(sizes({{}, 8, {}}), (std::pair<std::uint64_t, std::uint64_t>{1, 8}));
  EXPECT_EQ(sizes({1, 1, {}}), (std::pair<std::uint64_t, std::uint64_t>{1, 1}));
  EXPECT_EQ(sizes({{}, {}, 64}), (std::pair<std::uint64_t, std::uint64_t>{4, 4}));
  EXPECT_EQ(read(R"({"train_batch_size": 32})", 4, {{}, {}, 64}).fixed.micro_batch, std::nullopt);
}

TEST(ConfigDecisions, NotesNameTheFlagsOfTrainAndWhatHasNoCounterpart) {
  const ConfigDecisions d = read(R"({"train_batch_size": 1, "gradient_clipping": 0.5,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-6}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}},
    "zero_optimization": {"stage": 3, "zero_quantized_weights": true}})");
  ASSERT_EQ(d.notes.size(), 2u);
  EXPECT_NE(
      d.notes[0].find(
          "--lr 0.0001 --weight-decay 0.1 --beta1 0.9 --beta2 0.95 --eps 1e-06 --grad-clip 0.5 --schedule WarmupLR "
          "--schedule-args warmup_num_steps=10,warmup_type=linear"),
      std::string::npos)
      << d.notes[0];
  EXPECT_NE(d.notes[1].find("zero_quantized_weights"), std::string::npos);
}

TEST(ConfigDecisions, RefusesWhatDeepspeedWouldNotRun) {
  struct Row {
    const char* text;
    ErrorCode code;
    const char* key;
  };
  const Row rows[] = {
      {R"({"train_batch_size": 5, "train_micro_batch_size_per_gpu": 2})", ErrorCode::kInvalidInput, "train_batch_size"},
      {R"({"train_batch_size": 2, "zero_optimization": {"stage": 7}})", ErrorCode::kInvalidInput,
       "zero_optimization.stage"},
      {R"({"train_batch_size": 2, "train_batch_size": 4})", ErrorCode::kInvalidInput, "train_batch_size"},
      {R"({"train_batch_size": 2, "dump_state": True, "x": 1})", ErrorCode::kInvalidInput, ""},
      {R"({"train_batch_size": 2, "optimizer": {"type": "OneBitAdam"}})", ErrorCode::kUnsupported, "optimizer.type"},
      {R"({"train_batch_size": 2, "tensor_parallel": {"autotp_size": 2}})", ErrorCode::kUnsupported,
       "tensor_parallel.autotp_size"},
      {"{", ErrorCode::kInvalidInput, ""},
  };
  for (const Row& row : rows) {
    try {
      read(row.text, 2);
      ADD_FAILURE() << row.text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), row.code) << row.text << e.message();
      EXPECT_EQ(e.place().key, row.key) << row.text << e.message();
    }
  }
}

}  // namespace
}  // namespace zeroplan::planner::deepspeed
