// With accumulation, stages 0 and 1 sum a rank's micro-steps before they reduce, stages 2 and 3 reduce every
// micro-step. Both add the same numbers in another order, so their gradients may differ, but not by more than rounding
// explains.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "runtime/comm/loopback.h"
#include "runtime/executor.h"
#include "runtime/weights/weight_source.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::runtime {
namespace {

constexpr std::uint64_t kRanks = 2;
constexpr std::uint64_t kMicroSteps = 3;
constexpr std::uint64_t kParts = kRanks * kMicroSteps;

/// One token for each rank and micro-step, so that every gradient of a part is one finished number before it is added.
std::int32_t token_of(std::uint64_t rank, std::uint64_t micro_step) {
  return static_cast<std::int32_t>(7 + 13 * rank + 31 * micro_step);
}

class OneTokenHooks final : public TaskHooks {
 public:
  OneTokenHooks(const planner::Plan& plan, std::uint64_t rank, std::uint64_t first_micro_step)
      : plan_(plan), weights_(random_weights(plan.model, 11)), rank_(rank), first_micro_step_(first_micro_step) {}

  void input(const StepPosition& position, const InputTarget& target) override {
    const std::uint64_t micro_step = first_micro_step_ + position.micro_step;
    target.tokens[0] = token_of(rank_, micro_step);
    target.labels[0] = token_of(rank_, micro_step) + 1;
    if (target.scalars == nullptr) return;
    target.scalars->learning_rate = 1e-3;
    target.scalars->valid_tokens = kParts;
    target.scalars->inverse_valid_tokens = 1.0 / kParts;
    target.scalars->loss_sum = 0;
  }
  void load(const GroupState& state) override { fill_group(plan_, state, *weights_); }
  void save(const GroupState&) override {}
  void finished(const StepPosition&, const kernels::StepScalars&) override {}

 private:
  const planner::Plan& plan_;
  std::unique_ptr<WeightSource> weights_;
  std::uint64_t rank_;
  std::uint64_t first_micro_step_;
};

/// By group and element.
using Gradients = std::map<std::pair<std::uint32_t, std::uint64_t>, float>;

/// The gradients that one rank owns after the update.
void add_owned(const planner::Plan& plan, const Executor& executor, std::uint64_t rank, Gradients& all) {
  for (const planner::Step& step : plan.steps) {
    for (const planner::Task& task : step.tasks) {
      if (task.kind != planner::TaskKind::kNorm) continue;
      for (const planner::UpdatePiece& piece : std::get<planner::StateWork>(task.work).pieces) {
        const planner::ShardGroup& group = plan.partition.groups[piece.piece.group];
        const StatePiece resolved = resolve_piece(plan, piece, rank, executor.arenas(), true);
        const auto* values = reinterpret_cast<const float*>(resolved.gradients);
        const std::uint64_t begin = group.shard.count() * rank + piece.piece.begin;
        for (std::size_t i = 0; i < resolved.count; ++i) all[{piece.piece.group, begin + i}] = values[i];
      }
    }
  }
}

/// Gradients of one update of the given micro-steps by ranks `first_rank`, ...
Gradients gradients_of(std::uint64_t stage, std::uint64_t ranks, std::uint64_t accumulation, std::uint64_t first_rank,
                       std::uint64_t first_micro_step) {
  const planner::Plan plan = testing::make_test_plan(
      testing::llama_config(),
      {.ranks = ranks, .stage = stage, .accumulation = accumulation, .micro_batch = 1, .seq = 1, .fixed = {}});
  StopSignal stop;
  LoopbackGroup group(ranks, stop);
  std::vector<std::unique_ptr<Collectives>> ends;
  std::vector<std::unique_ptr<OneTokenHooks>> hooks;
  std::vector<std::unique_ptr<Executor>> executors;
  for (std::uint64_t r = 0; r < ranks; ++r) {
    ends.push_back(group.rank(r));
    hooks.push_back(std::make_unique<OneTokenHooks>(plan, first_rank + r, first_micro_step));
    executors.push_back(std::make_unique<Executor>(plan, *ends[r], *hooks[r], stop, ExecutorOptions{}));
  }
  for (auto& executor : executors) executor->start_phase("init");
  for (auto& executor : executors) executor->wait();
  UpdateGate gate;
  gate.approve(1);
  gate.close();
  for (auto& executor : executors) executor->start_updates(0, gate);
  for (auto& executor : executors) executor->wait();
  Gradients all;
  for (std::uint64_t r = 0; r < ranks; ++r) add_owned(plan, *executors[r], r, all);
  return all;
}

/// Any two orders of adding n numbers give results within 2 (n - 1) u / (1 - (n - 1) u) of the sum of magnitudes, u the
/// unit roundoff: each is within half of that of the exact sum (Higham, Accuracy and Stability of Numerical Algorithms,
/// section 4.2).
TEST(StagePairs, DifferByNoMoreThanTheOrderOfSumsExplains) {
  std::vector<Gradients> parts;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    for (std::uint64_t micro = 0; micro < kMicroSteps; ++micro) parts.push_back(gradients_of(0, 1, 1, rank, micro));
  }
  const Gradients local_first = gradients_of(1, kRanks, kMicroSteps, 0, 0);
  constexpr double kRoundoff = 0x1p-24;
  constexpr double kFactor = 2 * (kParts - 1) * kRoundoff / (1 - (kParts - 1) * kRoundoff);
  for (const std::uint64_t stage : {2, 3}) {
    const Gradients reduced_first = gradients_of(stage, kRanks, kMicroSteps, 0, 0);
    ASSERT_EQ(reduced_first.size(), local_first.size());
    std::size_t differing = 0;
    std::size_t compared = 0;
    for (const auto& [where, value] : parts.front()) {
      double magnitudes = 0;
      for (const Gradients& part : parts) magnitudes += std::abs(static_cast<double>(part.at(where)));
      const double difference = std::abs(static_cast<double>(local_first.at(where)) - reduced_first.at(where));
      ASSERT_LE(difference, kFactor * magnitudes)
          << "stage " << stage << ", group " << where.first << ", element " << where.second;
      differing += difference > 0 ? 1 : 0;
      compared += magnitudes > 0 ? 1 : 0;
    }
    EXPECT_GT(compared, 1000u);
    EXPECT_GT(differing, 0u) << "equal in all bits: this test then compares one order with itself";
  }
}

}  // namespace
}  // namespace zeroplan::runtime
