// The runtime takes its memory once, as the plan says, and nothing while it trains.
#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/process_memory.h"
#include "runtime/step_scope.h"
#include "tests/allocations/allocation_count.h"
#include "tests/runtime/training_support.h"

namespace zeroplan::testing {
namespace {

constexpr std::uint64_t kSteps = 6;
/// What a process may take beside its arenas : stacks, plan, tables.
constexpr std::uint64_t kMostBeside = std::uint64_t{64} << 20;

/// A model whose arenas are large enough to tell them from everything else.
Json wider_llama_config() {
  Json config = llama_config();
  config["hidden_size"] = 256;
  config["intermediate_size"] = 640;
  config["num_hidden_layers"] = 4;
  config["vocab_size"] = 512;
  config["max_position_embeddings"] = 256;
  return config;
}

class TrainingAllocations : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(TrainingAllocations, AreNoneInSteps) {
  for (const std::uint64_t accumulation : {1, 2}) {
    TinyRun run(qwen2_tied_config(), {.ranks = 3, .stage = GetParam(), .accumulation = accumulation});
    AllocationWatch watch;
    runtime::TrainSettings settings;
    settings.steps = kSteps;
    settings.threads = 2;
    runtime::Trainer trainer(run.plan, settings, run.batches, *run.weights, *run.schedule);
    trainer.train(
        [&](const runtime::StepReport& report) {
          // Lanes run ahead of reports by at most two updates; the last of them end before train returns.
          if (report.step == 1) watch.arm_steady_state();
          if (report.step == kSteps) watch.disarm_steady_state();
        },
        run.no_interrupt);
    const AllocationCounts counts = watch.counts();
    EXPECT_EQ(counts.in_training_steps, 0u) << "accumulation " << accumulation;
    EXPECT_EQ(counts.by_other_threads, 0u) << "accumulation " << accumulation;
  }
}

/// Overflows, 16-bit sums in workspaces and states without fp32 included.
TEST_P(TrainingAllocations, AreNoneIn16BitSteps) {
  for (const auto precision : {planner::Precision::kFp16Mixed, planner::Precision::kBf16}) {
    TinyRun run(qwen2_tied_config(), {.ranks = 2, .stage = GetParam(), .seq = 48, .precision = precision});
    AllocationWatch watch;
    runtime::TrainSettings settings;
    settings.steps = kSteps;
    settings.threads = 2;
    settings.loss_scale.initial_power = 30;
    runtime::Trainer trainer(run.plan, settings, run.batches, *run.weights, *run.schedule);
    trainer.train(
        [&](const runtime::StepReport& report) {
          if (report.step == 1) watch.arm_steady_state();
          if (report.step == kSteps) watch.disarm_steady_state();
        },
        run.no_interrupt);
    const AllocationCounts counts = watch.counts();
    EXPECT_EQ(counts.in_training_steps, 0u) << planner::name_of(precision);
    EXPECT_EQ(counts.by_other_threads, 0u) << planner::name_of(precision);
  }
}

TEST_P(TrainingAllocations, LargeOnesAreTheArenas) {
  TinyRun run(wider_llama_config(), {.ranks = 2, .stage = GetParam(), .micro_batch = 4, .seq = 256});
  const Bytes arena = run.plan.tier(planner::Tier::kDevice).arena;
  ASSERT_GT(arena, Bytes(std::uint64_t{8} << 20));
  const auto before = runtime::resident_now();
  AllocationWatch watch;
  runtime::Trainer trainer(run.plan, {.steps = 2}, run.batches, *run.weights, *run.schedule);
  trainer.train([](const runtime::StepReport&) {}, run.no_interrupt);
  const AllocationCounts counts = watch.counts();
  EXPECT_EQ(counts.heap_above_1_mib, 0u);
  EXPECT_EQ(std::count(counts.mapped_above_1_mib.begin(), counts.mapped_above_1_mib.end(), arena.count()), 2);
  EXPECT_EQ(counts.mapped_above_1_mib.size(), 2u);
  const auto now = runtime::resident_now();
  ASSERT_TRUE(before && now);
  const std::uint64_t growth = now->count() - std::min(before->count(), now->count());
  EXPECT_LE(growth, 2 * arena.count() + kMostBeside);
}

INSTANTIATE_TEST_SUITE_P(Stages, TrainingAllocations, ::testing::Values(0, 1, 2, 3));

TEST(AllocationWatch, SeesWhatItShould) {
  AllocationWatch watch;
  std::vector<char> large(std::size_t{2} << 20);
  {
    const runtime::TrainingStepScope step;
    std::vector<char> small(100);
    EXPECT_EQ(small[0], large[0]);
  }
  watch.arm_steady_state();
  std::thread other([] { std::vector<char> inside(50, 'x'); });
  other.join();
  const AllocationCounts counts = watch.counts();
  EXPECT_EQ(counts.heap_above_1_mib, 1u);
  EXPECT_EQ(counts.in_training_steps, 1u);
  EXPECT_GE(counts.by_other_threads, 1u);
}

}  // namespace
}  // namespace zeroplan::testing
