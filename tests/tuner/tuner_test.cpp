#include "planner/tuner/tuner.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "planner/cost_model.h"
#include "planner/dependencies.h"
#include "planner/schedule/skeleton.h"
#include "planner/tuner/resource_bounds.h"
#include "simulator/evaluator.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::planner {
namespace {

/// A space that is small enough to try all of it.
struct Space {
  models::Model model;
  Machine machine;
  TrainingSpec training;
  FixedDecisions fixed;
  GridValues grid;
};

template <class T>
T pick(std::mt19937_64& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

/// At most `most` of the values, in their order.
template <class T>
std::vector<T> some(std::mt19937_64& random, std::vector<T> values, std::size_t most) {
  while (values.size() > most) values.erase(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  return values;
}

Bytes arena_of(const Space& space, const Strategy& strategy) {
  return make_plan(space.model, space.machine, space.training, strategy).tier(Tier::kDevice).arena;
}

Space random_space(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Space space;
  space.model = testing::tiny_model(
      pick<Json>(random, {testing::llama_config(), testing::gpt2_config(), testing::qwen2_tied_config()}));
  space.training.gpus = pick<std::uint64_t>(random, {1, 2, 4, 8});
  space.training.nodes = space.training.gpus >= 4 && random() % 2 == 0 ? 2 : 1;
  space.training.seq = pick<std::uint64_t>(random, {8, 16});
  space.training.precision = pick<Precision>(random, {Precision::kFp32, Precision::kBf16Mixed});
  space.training.backend = pick<BackendKind>(random, {BackendKind::kCpu, BackendKind::kCuda});
  if (random() % 2 == 0) space.training.global_batch = space.training.gpus * pick<std::uint64_t>(random, {2, 4, 6});
  space.machine = parse_machine("cpu");
  space.machine.gpus = space.training.gpus;
  space.machine.nodes = space.training.nodes;
  space.machine.cores = random() % 2 == 0 ? 0 : 4;
  // Links from far too slow to faster than arithmetic, so that every lane binds somewhere.
  space.machine.rates.link_bytes = BytesPerSecond(pick<double>(random, {2e7, 2e8, 2e12}));
  space.machine.rates.network_bytes = BytesPerSecond(pick<double>(random, {1e7, 1e12}));
  if (random() % 2 == 0) space.machine.latencies = {};
  space.grid.stages = some<std::uint64_t>(random, {0, 1, 2, 3}, 2 + random() % 3);
  space.grid.micro_batches = some<std::uint64_t>(random, {1, 2, 4}, 1 + random() % 2);
  space.grid.most_micro_batches = 2;
  space.grid.selective_recompute = random() % 2 == 0;
  space.grid.recomputed_parts = some<double>(random, {0, 0.5, 1}, 2);
  space.grid.head_chunk_factors = some<std::uint64_t>(random, {1, 2}, 1);
  space.grid.reduce_buckets = some<double>(random, {1, 0.25, 3}, 2);
  space.grid.prefetch = some<double>(random, {1, 0.3, 2}, 1);
  // A budget between what the leanest and the hungriest outline need; sometimes none, sometimes too small.
  const DecisionGrid grid(space.model, space.training, space.fixed, space.grid);
  Bytes least(UINT64_MAX), most;
  for (const Strategy& outline : grid.outlines()) {
    const Bytes arena = arena_of(space, outline);
    least = std::min(least, arena);
    most = std::max(most, arena);
  }
  const std::uint64_t part = random() % 6;
  if (part == 0) space.machine.device_bytes = least * 99 / 100;
  if (part >= 1 && part < 5) space.machine.device_bytes = least + (most - least) * part / 4;
  return space;
}

struct Costed {
  RankKey key;
  Strategy strategy;
  double tokens_per_s = 0;
};

/// Every leaf, planned in full; the best of each outline, in the order of the ranking.
std::vector<Costed> try_all(const Space& space, const Evaluator& evaluator) {
  const DecisionGrid grid(space.model, space.training, space.fixed, space.grid);
  std::vector<Costed> ranking;
  for (std::size_t o = 0; o < grid.outlines().size(); ++o) {
    std::optional<Costed> best;
    const auto leaves = grid.leaves(o);
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      const Plan plan = make_plan(space.model, space.machine, space.training, leaves[l]);
      const RunRecord record = evaluator.evaluate(plan);
      const FitResult fit = judge_fit(plan);
      if (fit.verdict == Verdict::kNo) continue;
      const RankKey key{fit.verdict, time_step_of(record.step, plan.tokens_per_update()), o, l};
      if (!best || key < best->key) best = Costed{key, plan.strategy, record.tokens_per_s};
    }
    if (best) ranking.push_back(*best);
  }
  std::sort(ranking.begin(), ranking.end(), [](const Costed& a, const Costed& b) { return a.key < b.key; });
  return ranking;
}

class RandomSpaces : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomSpaces, RankingIsThatOfTryingAll) {
  constexpr std::uint64_t kSpacesEach = 10;
  const simulator::SimulationEvaluator evaluator;
  for (std::uint64_t i = 0; i < kSpacesEach; ++i) {
    const Space space = random_space(GetParam() * kSpacesEach + i);
    SCOPED_TRACE(GetParam() * kSpacesEach + i);
    TuneOptions options;
    options.grid = space.grid;
    options.top = 1 + i % 4;
    const std::vector<Costed> all = try_all(space, evaluator);
    const TuneResult result = tune(space.model, space.machine, space.training, space.fixed, evaluator, options);
    ASSERT_EQ(result.ranked.size(), std::min(options.top, all.size()));
    for (std::size_t r = 0; r < result.ranked.size(); ++r) {
      EXPECT_EQ(result.ranked[r].key, all[r].key);
      EXPECT_EQ(result.ranked[r].plan.strategy, all[r].strategy);
      EXPECT_DOUBLE_EQ(result.ranked[r].predicted.tokens_per_s, all[r].tokens_per_s);
    }
    const DecisionGrid grid(space.model, space.training, space.fixed, space.grid);
    EXPECT_LE(grid.size(), 2000u);
    EXPECT_EQ(result.account.leaves, grid.size());
    EXPECT_EQ(result.account.simulated + result.account.pruned_by_arithmetic + result.account.pruned_by_lane +
                  result.account.pruned_by_memory,
              result.account.leaves);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSpaces, ::testing::Range<std::uint64_t>(0, 10));

TEST(ResourceBounds, AreNeverAboveWhatAPlanTakes) {
  const simulator::SimulationEvaluator evaluator;
  for (std::uint64_t seed = 500; seed < 510; ++seed) {
    const Space space = random_space(seed);
    const CostModel costs(space.machine, space.training);
    const DecisionGrid grid(space.model, space.training, space.fixed, space.grid);
    for (const Strategy& strategy : grid.outlines()) {
      const Plan skeleton = build_skeleton(space.model, space.machine, space.training, strategy);
      const Plan plan = make_plan(space.model, space.machine, space.training, strategy);
      const double step = evaluator.evaluate(plan).step.value();
      EXPECT_LE(arithmetic_time(skeleton, costs).value(), step * (1 + 1e-9));
      EXPECT_LE(busiest_lane_time(skeleton, costs).value(), step * (1 + 1e-9));
      const TierPlan& device = plan.tier(Tier::kDevice);
      EXPECT_LE(device_bytes_at_least(skeleton), device.arena);
      EXPECT_LE(always_live_bytes(skeleton) + activation_bytes_at_least(skeleton), device_bytes_at_least(skeleton));
      EXPECT_GT(device_bytes_at_least(skeleton), always_live_bytes(skeleton));
    }
  }
}

TEST(Tuner, DoesNotDependOnThreads) {
  const simulator::SimulationEvaluator evaluator;
  const Space space = random_space(7);
  TuneOptions options;
  options.grid = space.grid;
  options.threads = 1;
  const TuneResult one = tune(space.model, space.machine, space.training, space.fixed, evaluator, options);
  options.threads = 3;
  const TuneResult three = tune(space.model, space.machine, space.training, space.fixed, evaluator, options);
  ASSERT_EQ(one.ranked.size(), three.ranked.size());
  for (std::size_t r = 0; r < one.ranked.size(); ++r) EXPECT_EQ(one.ranked[r].key, three.ranked[r].key);
  EXPECT_EQ(one.account.simulated, three.account.simulated);
  EXPECT_EQ(one.account.pruned_by_lane, three.account.pruned_by_lane);
}

TEST(Tuner, SaysWhatIsMissingWhereNothingFits) {
  const simulator::SimulationEvaluator evaluator;
  Space space = random_space(11);
  space.machine.device_bytes = Bytes(1000);
  const TuneResult result = tune(space.model, space.machine, space.training, space.fixed, evaluator);
  EXPECT_TRUE(result.ranked.empty());
  ASSERT_FALSE(result.rejected.empty());
  EXPECT_EQ(result.rejected.front().limit, Tier::kDevice);
  EXPECT_GT(result.rejected.front().device_need, Bytes(1000));
  EXPECT_NE(result.rejected.front().reason.find("needs"), std::string::npos);
}

TEST(Tuner, KeepsFixedDecisions) {
  const simulator::SimulationEvaluator evaluator;
  Space space = random_space(12);
  space.machine.device_bytes.reset();
  space.training.global_batch.reset();
  space.fixed.stage = 3;
  space.fixed.micro_batch = 2;
  space.fixed.recompute = Recompute::kFull;
  space.fixed.reduce_bucket_size = 5000;
  space.fixed.prefetch_bucket_size = 7000;
  const TuneResult result = tune(space.model, space.machine, space.training, space.fixed, evaluator);
  ASSERT_FALSE(result.ranked.empty());
  for (const RankedPlan& ranked : result.ranked) {
    EXPECT_EQ(ranked.plan.strategy.stage, 3u);
    EXPECT_EQ(ranked.plan.strategy.micro_batch, 2u);
    EXPECT_EQ(ranked.plan.strategy.recompute, Recompute::kFull);
    EXPECT_EQ(ranked.plan.strategy.reduce_bucket_size, 5000u);
    EXPECT_EQ(ranked.plan.strategy.prefetch_bucket_size, 7000u);
  }
  EXPECT_FALSE(result.ranked.front().why.empty());
}

TEST(Tuner, ParetoFrontRisesInMemoryAndSpeed) {
  const simulator::SimulationEvaluator evaluator;
  int fronts = 0;
  for (const std::uint64_t seed : {11, 12, 13, 14, 15, 16}) {
    const Space space = random_space(seed);
    TuneOptions options;
    options.grid = space.grid;
    const TuneResult result = tune(space.model, space.machine, space.training, space.fixed, evaluator, options);
    fronts += result.pareto.size() > 1 ? 1 : 0;
    for (std::size_t i = 1; i < result.pareto.size(); ++i) {
      EXPECT_GE(result.pareto[i].device_need, result.pareto[i - 1].device_need);
      EXPECT_GT(result.pareto[i].tokens_per_s, result.pareto[i - 1].tokens_per_s);
    }
  }
  EXPECT_GE(fronts, 2);
}

}  // namespace
}  // namespace zeroplan::planner
