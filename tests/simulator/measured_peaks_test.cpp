// Predicted memory of whole training steps against measurements (tests/golden/measured_peaks.jsonl: each row with its
// source). The bounds are those that estimates promise: a peak within 4 % in every row, within 0.5 % in the median.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "simulator/profiles/profile.h"
#include "tests/models/model_testing.h"

namespace zeroplan::simulator {
namespace {

struct Row {
  std::string name;
  Json json;
};

std::vector<Row> rows() {
  std::vector<Row> list;
  std::ifstream file(std::string(ZP_SOURCE_DIR) + "/tests/golden/measured_peaks.jsonl");
  for (std::string line; std::getline(file, line);) {
    Json json = parse_json(line, "measured_peaks.jsonl");
    const std::string name = json.at("name").get<std::string>();
    list.push_back({name, std::move(json)});
  }
  return list;
}

PeakPrediction predicted(const Json& row) {
  const models::Model model = models::model_of(row.at("config").dump());
  planner::TrainingSpec spec;
  const bool sharded = row.at("framework") == "fsdp2";
  const std::string precision = row.at("precision").get<std::string>();
  spec.framework = sharded ? planner::Framework::kFsdp2 : planner::Framework::kPytorch;
  spec.precision = planner::Precision::kBf16Mixed;
  if (precision == "fp32") spec.precision = planner::Precision::kFp32;
  if (precision == "amp") spec.precision = planner::Precision::kAmp;
  if (precision == "bf16") spec.precision = planner::Precision::kBf16;
  spec.gpus = row.at("gpus").get<std::uint64_t>();
  spec.seq = row.at("seq").get<std::uint64_t>();
  spec.reshard = row.at("reshard").get<bool>();
  spec.attention = row.at("attention") == "eager" ? planner::AttentionKind::kEager : planner::AttentionKind::kSdpa;
  spec.optimizer_impl =
      row.at("fused").get<bool>() ? planner::OptimizerImplementation::kFused : planner::OptimizerImplementation::kLoop;
  planner::Strategy strategy;
  strategy.stage = sharded ? 3 : 0;
  strategy.micro_batch = row.at("micro_batch").get<std::uint64_t>();
  strategy.recompute = row.at("recompute").get<bool>() ? planner::Recompute::kFull : planner::Recompute::kNone;
  if (row.at("offload").get<bool>()) strategy.offload_param = {planner::OffloadPlace::kCpu, 1};
  const TrainedParameters trained = trained_parameters(model, spec);
  return predict_peak({model, trained, spec, strategy, nullptr, {}});
}

double error_percent(std::uint64_t found, const Json& measured) {
  const double truth = measured.get<double>();
  return 100 * std::abs(static_cast<double>(found) - truth) / truth;
}

double median(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() / 2];
}

TEST(MeasuredPeaks, AreMetWithinThePromisedBounds) {
  std::vector<double> peaks;
  std::vector<double> phases;
  std::vector<double> reserved;
  for (const Row& row : rows()) {
    const PeakPrediction p = predicted(row.json);
    const Json& m = row.json.at("measured");
    const auto phase = [&](Phase which) { return *p.phases[static_cast<std::size_t>(which)]; };
    peaks.push_back(error_percent(p.allocated_bytes, m.at("peak")));
    EXPECT_LE(peaks.back(), 4) << row.name << ": " << p.allocated_bytes << " instead of " << m.at("peak");
    phases.push_back(error_percent(phase(Phase::kForward).peak, m.at("fwd_peak")));
    phases.push_back(error_percent(phase(Phase::kForward).end, m.at("fwd_end")));
    phases.push_back(error_percent(phase(Phase::kBackward).peak, m.at("bwd_peak")));
    phases.push_back(error_percent(phase(Phase::kBackward).end, m.at("bwd_end")));
    phases.push_back(error_percent(phase(Phase::kStep).peak, m.at("step_peak")));
    phases.push_back(error_percent(phase(Phase::kZeroGrad).end, m.at("zeroed")));
    for (std::size_t i = phases.size() - 6; i < phases.size(); ++i) EXPECT_LE(phases[i], 4) << row.name;
    reserved.push_back(error_percent(p.reserved_bytes, m.at("reserved")));
    EXPECT_LE(reserved.back(), 8) << row.name;
  }
  ASSERT_GE(peaks.size(), 12U);
  EXPECT_LE(median(peaks), 0.5);
  EXPECT_LE(median(phases), 1);
  EXPECT_LE(median(reserved), 3);
}

TEST(MeasuredPeaks, HoldersAddUpToThePeak) {
  for (const Row& row : rows()) {
    const PeakPrediction p = predicted(row.json);
    std::uint64_t sum = 0;
    for (const Holder& h : p.holders) sum += h.bytes;
    EXPECT_EQ(sum, p.allocated_bytes) << row.name;
    EXPECT_GE(p.reserved_bytes, p.allocated_bytes) << row.name;
  }
}

}  // namespace
}  // namespace zeroplan::simulator
