#include <gtest/gtest.h>

#include "tests/runtime/training_support.h"

namespace zeroplan::testing {
namespace {

/// At stages 0 to 3, with one pass an update.
void expect_stages_equal(const Json& config, PlanSettings settings) {
  settings.stage = 0;
  const auto expected = losses(config, settings);
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_NE(expected[0], expected[2]);
  for (std::uint64_t stage = 1; stage <= 3; ++stage) {
    settings.stage = stage;
    EXPECT_EQ(losses(config, settings), expected) << "stage " << stage << ", ranks " << settings.ranks;
  }
}

TEST(BitEquality, OfAllStagesWithoutAccumulation) {
  for (const std::uint64_t ranks : {1, 2, 3, 4, 5}) expect_stages_equal(llama_config(), {.ranks = ranks});
}

TEST(BitEquality, OfAllStagesForEachFamily) {
  for (const Json& config : {gpt2_config(), qwen2_tied_config(), qwen3_config()})
    expect_stages_equal(config, {.ranks = 3});
}

TEST(BitEquality, OfStages0And1AndOf2And3WithAccumulation) {
  for (const std::uint64_t accumulation : {2, 3}) {
    const auto run = [&](std::uint64_t stage) {
      return losses(qwen2_tied_config(), {.ranks = 2, .stage = stage, .accumulation = accumulation});
    };
    EXPECT_EQ(run(1), run(0));
    EXPECT_EQ(run(3), run(2));
  }
}

TEST(BitEquality, OfAllStagesForEachOptimizer) {
  using planner::OptimizerKind;
  for (const OptimizerKind optimizer : {OptimizerKind::kAdam, OptimizerKind::kSgd, OptimizerKind::kLion,
                                        OptimizerKind::kAdagrad, OptimizerKind::kLamb}) {
    SCOPED_TRACE(planner::name_of(optimizer));
    expect_stages_equal(gpt2_config(), {.ranks = 1, .optimizer = optimizer});
    expect_stages_equal(qwen2_tied_config(), {.ranks = 3, .optimizer = optimizer});
  }
}

TEST(BitEquality, OfLambForEveryCutAndThreadAndDeadBytes) {
  PlanSettings settings{.ranks = 3, .optimizer = planner::OptimizerKind::kLamb};
  const auto expected = losses(llama_config(), settings);
  settings.fixed.sub_group_size = 1000;
  for (std::uint64_t stage = 0; stage <= 3; ++stage) {
    settings.stage = stage;
    EXPECT_EQ(losses(llama_config(), settings, 3, 2, true), expected) << "stage " << stage;
  }
}

TEST(BitEquality, WithRecompute) {
  for (const std::uint64_t stage : {0, 3}) {
    PlanSettings settings{.ranks = 2, .stage = stage};
    const auto expected = losses(qwen3_config(), settings);
    for (const auto recompute : {planner::Recompute::kSelective, planner::Recompute::kFull}) {
      settings.recompute = recompute;
      EXPECT_EQ(losses(qwen3_config(), settings), expected);
    }
  }
}

TEST(BitEquality, WithAnyNumberOfThreads) {
  const PlanSettings settings{.ranks = 2, .stage = 3};
  EXPECT_EQ(losses(llama_config(), settings, 3, 3), losses(llama_config(), settings, 3, 1));
}

TEST(BitEquality, WhenDeadBytesBecomeNan) {
  for (const std::uint64_t stage : {0, 1, 2, 3}) {
    for (const std::uint64_t accumulation : {1, 3}) {
      const PlanSettings settings{.ranks = 2, .stage = stage, .accumulation = accumulation};
      EXPECT_EQ(losses(gpt2_config(), settings, 3, 1, true), losses(gpt2_config(), settings)) << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace zeroplan::testing
