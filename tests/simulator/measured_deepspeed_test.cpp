// Predicted memory of DeepSpeed's ranks against measurements (tests/reference/deepspeed_h200.jsonl; its README says how
// they were made and what the profile does not model).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/core/file_io.h"
#include "simulator/profiles/profile.h"
#include "tests/models/model_testing.h"

namespace zeroplan::simulator {
namespace {

const std::string kFolder = std::string(ZP_SOURCE_DIR) + "/tests/reference/";

std::vector<Json> measured_rows() {
  std::vector<Json> rows;
  std::ifstream file(kFolder + "deepspeed_h200.jsonl");
  for (std::string line; std::getline(file, line);) rows.push_back(parse_json(line, "deepspeed_h200.jsonl"));
  return rows;
}

std::string describe(const Json& row) {
  return fmt::format("{} stage {}, offload {}, bucket {}, world {}", row.at("model").get<std::string>(),
                     row.at("stage").dump(), row.at("offload_optimizer").get<std::string>(), row.at("bucket").dump(),
                     row.at("world").dump());
}

PeakPrediction predict(const Json& row) {
  const models::Model model =
      models::model_of(read_file(kFolder + "configs/" + row.at("model").get<std::string>() + ".json", Bytes(1 << 20)));
  planner::TrainingSpec spec;
  spec.framework = planner::Framework::kDeepspeed;
  spec.precision = planner::Precision::kBf16Mixed;
  spec.optimizer_impl = planner::OptimizerImplementation::kForeach;  // torch_adam
  spec.gpus = row.at("world").get<std::uint64_t>();
  spec.seq = row.at("seq").get<std::uint64_t>();
  planner::Strategy strategy;
  strategy.stage = row.at("stage").get<std::uint64_t>();
  strategy.micro_batch = row.at("mb").get<std::uint64_t>();
  strategy.recompute = row.at("recompute").get<bool>() ? planner::Recompute::kFull : planner::Recompute::kNone;
  if (row.at("offload_optimizer") == "cpu") strategy.offload_optimizer = {planner::OffloadPlace::kCpu, 1};
  strategy.reduce_bucket_size = strategy.allgather_bucket_size = row.at("bucket").get<std::uint64_t>();
  strategy.prefetch_bucket_size = 50'000'000;
  strategy.param_persistence_threshold = 100'000;
  strategy.max_live_parameters = strategy.max_reuse_distance = strategy.sub_group_size = 1'000'000'000;
  const TrainedParameters trained = trained_parameters(model, spec);
  return predict_peak({model, trained, spec, strategy, nullptr, {}});
}

TEST(MeasuredDeepspeed, PeaksAreMetWithinThePromisedBounds) {
  std::vector<double> errors;
  for (const Json& row : measured_rows()) {
    const double truth = row.at("peak").get<double>();
    const double found = static_cast<double>(predict(row).allocated_bytes);
    errors.push_back(100 * std::abs(found - truth) / truth);
    EXPECT_LE(errors.back(), 9) << describe(row) << ": " << found << " instead of " << truth;
  }
  ASSERT_GE(errors.size(), 30U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 3);
  EXPECT_LE(errors[errors.size() * 9 / 10], 8);
}

TEST(MeasuredDeepspeed, StatesAreThoseAfterAStep) {
  for (const Json& row : measured_rows()) {
    // Left after the step: weights, states, buffers; gradients are gone.
    const double truth = row.at("step_end").get<double>();
    const auto step = predict(row).phases[static_cast<std::size_t>(Phase::kZeroGrad)];
    ASSERT_TRUE(step.has_value());
    EXPECT_NEAR(static_cast<double>(step->end) / truth, 1, 0.25) << describe(row);
  }
}

}  // namespace
}  // namespace zeroplan::simulator
