// What changes no bit, and the bound where sums run in another order.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/loopback_training.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::runtime {
namespace {

using planner::Recompute;
using testing::make_test_plan;
using testing::train_on_loopback;
using testing::TrainingTrace;

constexpr std::uint64_t kUpdates = 3;

std::vector<Json> families() {
  return {testing::llama_config(), testing::qwen2_tied_config(), testing::qwen3_config(), testing::gpt2_config()};
}

TEST(BitEquality, StagesAgreeWithoutAccumulation) {
  for (const Json& config : families()) {
    for (const std::uint64_t ranks : {1, 2, 3, 4, 5}) {
      const TrainingTrace stage0 = train_on_loopback(make_test_plan(config, {.ranks = ranks, .stage = 0, .fixed = {}}), kUpdates);
      EXPECT_TRUE(std::isfinite(stage0.losses.back()));
      EXPECT_GT(stage0.norms.front(), 0);
      for (const std::uint64_t stage : {1, 2, 3}) {
        EXPECT_EQ(train_on_loopback(make_test_plan(config, {.ranks = ranks, .stage = stage, .fixed = {}}), kUpdates), stage0)
            << config["model_type"] << " ranks " << ranks << " stage " << stage;
      }
    }
  }
}

TEST(BitEquality, WithAccumulationStages0And1AgreeAnd2And3Agree) {
  for (const Json& config : families()) {
    for (const std::uint64_t ranks : {2, 3}) {
      std::vector<TrainingTrace> traces;
      for (std::uint64_t stage = 0; stage <= 3; ++stage) {
        traces.push_back(
            train_on_loopback(make_test_plan(config, {.ranks = ranks, .stage = stage, .accumulation = 2, .fixed = {}}), kUpdates));
      }
      EXPECT_EQ(traces[0], traces[1]) << config["model_type"] << " ranks " << ranks;
      EXPECT_EQ(traces[2], traces[3]) << config["model_type"] << " ranks " << ranks;
      // Between the pairs the summands of a gradient element are added in another order. With n = ranks x passes summands each of
      // the two sums is within (n - 1) u of the exact one relative to the sum of magnitudes, so the gradient norm differs by at most
      // 2 (n - 1) u times the norm of the summed magnitudes, which n times the norm of a pass's gradient bounds; passes of this
      // data have norms within a factor 4 of the total's.
      const double u = std::ldexp(1.0, -24);
      const double n = static_cast<double>(ranks) * 2;
      const double bound = 2 * (n - 1) * u * n * 4;
      EXPECT_EQ(traces[0].losses[0], traces[2].losses[0]) << "the first loss precedes every sum of gradients";
      EXPECT_NEAR(traces[0].norms[0] / traces[2].norms[0], 1, bound) << config["model_type"] << " ranks " << ranks;
    }
  }
}

TEST(BitEquality, RecomputeChangesNoBit) {
  for (const Json& config : families()) {
    for (const std::uint64_t stage : {0, 3}) {
      const TrainingTrace kept = train_on_loopback(make_test_plan(config, {.stage = stage, .fixed = {}}), kUpdates);
      for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
        EXPECT_EQ(train_on_loopback(make_test_plan(config, {.stage = stage, .recompute = recompute, .fixed = {}}), kUpdates), kept)
            << config["model_type"] << " stage " << stage << " " << name_of(recompute);
      }
      testing::PlanSettings some{.stage = stage, .recompute = Recompute::kFull, .fixed = {}};
      some.fixed.recompute_blocks = 2;
      EXPECT_EQ(train_on_loopback(make_test_plan(config, some), kUpdates), kept) << "two of three blocks";
    }
  }
}

TEST(BitEquality, KnobsChangeNoBit) {
  const Json config = testing::qwen2_tied_config();
  const TrainingTrace plain = train_on_loopback(make_test_plan(config, {.stage = 3, .fixed = {}}), kUpdates);
  testing::PlanSettings small{.stage = 3, .fixed = {}};
  small.fixed.reduce_bucket_size = 1000;
  small.fixed.allgather_bucket_size = 1000;
  small.fixed.prefetch_bucket_size = 0;
  small.fixed.sub_group_size = 777;
  EXPECT_EQ(train_on_loopback(make_test_plan(config, small), kUpdates), plain);
  testing::PlanSettings large{.stage = 3, .fixed = {}};
  large.fixed.reduce_bucket_size = 1u << 30;
  large.fixed.prefetch_bucket_size = 1u << 30;
  large.fixed.max_live_parameters = 1u << 30;
  large.fixed.max_reuse_distance = 1u << 30;
  EXPECT_EQ(train_on_loopback(make_test_plan(config, large), kUpdates), plain);
}

TEST(BitEquality, ThreadsChangeNoBit) {
  const planner::Plan plan = make_test_plan(testing::llama_config(), {.fixed = {}});
  const TrainingTrace one = train_on_loopback(plan, kUpdates, {.threads = 1});
  EXPECT_EQ(train_on_loopback(plan, kUpdates, {.threads = 2}), one);
  EXPECT_EQ(train_on_loopback(plan, kUpdates, {.threads = 3}), one);
}

TEST(PlannedIsUsed, PoisonOutsideLiveRangesChangesNoBit) {
  for (const Json& config : families()) {
    for (const std::uint64_t stage : {0, 1, 2, 3}) {
      for (const std::uint64_t accumulation : {1, 2}) {
        const planner::Plan plan = make_test_plan(config, {.stage = stage, .accumulation = accumulation, .fixed = {}});
        EXPECT_EQ(train_on_loopback(plan, kUpdates, {.poison = true}), train_on_loopback(plan, kUpdates))
            << config["model_type"] << " stage " << stage << " accumulation " << accumulation;
      }
    }
  }
}

}  // namespace
}  // namespace zeroplan::runtime
