// What a forward pass leaves behind, for models of many families, against transformers 5.17 on
// PyTorch 2.11: tests/golden/forward_memory.jsonl holds bytes of unique storages (rounded up to 512) while the
// library's own code ran on tensors without data. Two layers, 2 x 256 tokens, vocabulary of 2048.
#include <cmath>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "simulator/profiles/profile.h"
#include "tests/models/model_testing.h"

namespace zeroplan::simulator {
namespace {

PeakPrediction predicted(const Json& row) {
  const models::Model model = models::model_of(row.at("config").dump());
  planner::TrainingSpec spec;
  spec.framework = planner::Framework::kPytorch;
  const std::string regime = row.at("regime").get<std::string>();
  spec.precision = regime == "fp32"  ? planner::Precision::kFp32
                   : regime == "amp" ? planner::Precision::kAmp
                                     : planner::Precision::kBf16;
  spec.seq = row.at("seq").get<std::uint64_t>();
  spec.attention = row.at("attention") == "eager" ? planner::AttentionKind::kEager : planner::AttentionKind::kSdpa;
  planner::Strategy strategy;
  strategy.stage = 0;
  strategy.micro_batch = row.at("micro_batch").get<std::uint64_t>();
  strategy.recompute = row.at("recompute").get<bool>() ? planner::Recompute::kFull : planner::Recompute::kNone;
  AllocatorOptions exact;
  exact.expandable_segments = true;  // blocks are split to 512 bytes: no remainders of large blocks
  return predict_peak({model, trained_parameters(model, spec), spec, strategy, nullptr, exact});
}

TEST(ForwardMemory, IsWhatTransformersKeeps) {
  constexpr double kBound = 0.01;
  std::ifstream file(std::string(ZP_SOURCE_DIR) + "/tests/golden/forward_memory.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const Json row = parse_json(line, "forward_memory.jsonl");
    const PeakPrediction p = predicted(row);
    const PhaseBytes forward = *p.phases[static_cast<std::size_t>(Phase::kForward)];
    const auto before = static_cast<double>(p.phases[static_cast<std::size_t>(Phase::kZeroGrad)]->end);
    const std::string name = row.at("name").get<std::string>() + " " + row.at("regime").get<std::string>() +
                             (row.at("recompute").get<bool>() ? " recompute" : "");
    const double kept = row.at("kept").get<double>();
    EXPECT_NEAR(static_cast<double>(forward.end) - before, kept, kBound * kept) << name;
  }
  EXPECT_GE(count, 90U);
}

}  // namespace
}  // namespace zeroplan::simulator
