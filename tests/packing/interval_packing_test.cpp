#include <limits>

#include <gtest/gtest.h>

#include "models/core/error.h"
#include "tests/packing/packing_check.h"

namespace zeroplan::planner {
namespace {

void expect_packed(std::span<const IntervalBuffer> buffers, const IntervalPacking& packing,
                   const IntervalOptions& options) {
  EXPECT_EQ(packing.outcome, PackingOutcome::kPacked);
  EXPECT_TRUE(is_valid(buffers, packing.offsets, options.alignment));
  EXPECT_EQ(packing.height, height_of(buffers, packing.offsets));
  EXPECT_GE(packing.height, packing.lower_bound);
  if (options.capacity) {
    EXPECT_LE(packing.height, *options.capacity);
  }
}

TEST(IntervalPacking, FindsTheOptimumThatTryingAllFinds) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 120; ++round) {
    const auto buffers = random_buffers(random, 3 + static_cast<std::uint32_t>(random() % 6), 7, 6);
    const std::uint64_t lowest = lowest_by_trying_all(buffers);
    const IntervalPacking packing = pack_intervals(buffers);
    expect_packed(buffers, packing, {});
    EXPECT_EQ(packing.height, lowest);
    EXPECT_EQ(packing.lower_bound, lowest);
  }
}

/// Instances whose lowest packing is higher than what lives at once, so that only an exhausted search can prove it.
TEST(IntervalPacking, ProvesTheOptimumAboveTheLiveBytes) {
  const std::vector<std::vector<IntervalBuffer>> instances = {
      {{5, 6, 3}, {3, 6, 2}, {0, 2, 3}, {2, 5, 2}, {1, 4, 1}, {0, 1, 2}, {1, 3, 1}},
      {{0, 1, 5}, {3, 6, 2}, {2, 5, 2}, {5, 6, 5}, {4, 5, 3}, {0, 4, 2}, {1, 3, 3}},
      {{4, 7, 1}, {8, 9, 3}, {2, 6, 2}, {2, 8, 2}, {6, 9, 1}, {0, 2, 3}, {7, 8, 2}, {1, 3, 1}},
      {{1, 5, 4}, {3, 8, 1}, {4, 7, 2}, {0, 1, 5}, {7, 8, 5}, {5, 7, 4}, {0, 4, 1}, {1, 2, 2}}};
  for (const auto& buffers : instances) {
    const std::uint64_t lowest = lowest_by_trying_all(buffers);
    ASSERT_GT(lowest, most_live(buffers));
    const IntervalPacking packing = pack_intervals(buffers);
    expect_packed(buffers, packing, {});
    EXPECT_EQ(packing.height, lowest);
    EXPECT_EQ(packing.lower_bound, lowest);
    IntervalOptions options;
    options.capacity = lowest - 1;
    EXPECT_EQ(pack_intervals(buffers, options).outcome, PackingOutcome::kInfeasible);
  }
}

TEST(IntervalPacking, SaysInfeasibleExactlyWhereTryingAllFindsNone) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 80; ++round) {
    const auto buffers = random_buffers(random, 8, 6, 9);
    const std::uint64_t lowest = lowest_by_trying_all(buffers);
    IntervalOptions options;
    options.capacity = lowest;
    expect_packed(buffers, pack_intervals(buffers, options), options);
    options.capacity = lowest - 1;
    const IntervalPacking none = pack_intervals(buffers, options);
    EXPECT_EQ(none.outcome, PackingOutcome::kInfeasible);
    EXPECT_EQ(none.lower_bound, lowest);
    EXPECT_TRUE(is_valid(buffers, none.offsets, 1));
  }
}

TEST(IntervalPacking, FillsRectanglesCutWithoutLoss) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto buffers = cut_rectangle(random, 60, 40, 1000);
    IntervalOptions options;
    options.capacity = 1000;
    expect_packed(buffers, pack_intervals(buffers, options), options);
  }
}

TEST(IntervalPacking, KeepsTheAlignment) {
  std::mt19937_64 random(4);
  for (const std::uint64_t alignment : {std::uint64_t{1}, std::uint64_t{4}, std::uint64_t{512}}) {
    const auto buffers = random_buffers(random, 40, 20, 3000);
    IntervalOptions options;
    options.alignment = alignment;
    options.time_limit = std::chrono::duration<double>(0.2);
    expect_packed(buffers, pack_intervals(buffers, options), options);
  }
}

TEST(IntervalPacking, BoundCountsRoundedSizesButTheHighest) {
  const std::vector<IntervalBuffer> buffers = {{0, 2, 5}, {1, 3, 5}};
  IntervalOptions options;
  options.alignment = 8;
  const IntervalPacking packing = pack_intervals(buffers, options);
  EXPECT_EQ(packing.height, 13u);
  EXPECT_EQ(packing.lower_bound, 13u);
}

TEST(IntervalPacking, EqualInputsGiveEqualOutputs) {
  std::mt19937_64 random(5);
  const auto buffers = cut_rectangle(random, 80, 50, 4096);
  IntervalOptions options;
  options.capacity = 4096;
  EXPECT_EQ(pack_intervals(buffers, options).offsets, pack_intervals(buffers, options).offsets);
}

TEST(IntervalPacking, BuffersOfNoBytesAndNoBuffersTakeNoRoom) {
  EXPECT_EQ(pack_intervals({}).height, 0u);
  const std::vector<IntervalBuffer> buffers = {{0, 5, 0}, {0, 5, 7}, {3, 9, 0}};
  const IntervalPacking packing = pack_intervals(buffers);
  EXPECT_EQ(packing.height, 7u);
  EXPECT_EQ(packing.lower_bound, 7u);
}

TEST(IntervalPacking, CapacityBelowTheLiveBytesIsInfeasibleAtOnce) {
  const std::vector<IntervalBuffer> buffers = {{0, 3, 60}, {2, 4, 50}};
  IntervalOptions options;
  options.capacity = 109;
  const IntervalPacking packing = pack_intervals(buffers, options);
  EXPECT_EQ(packing.outcome, PackingOutcome::kInfeasible);
  EXPECT_EQ(packing.lower_bound, 110u);
}

TEST(IntervalPacking, EndsAtTheTimeLimitWithAValidPacking) {
  std::mt19937_64 random(6);
  const auto buffers = random_buffers(random, 3000, 5000, 1 << 20);
  IntervalOptions options;
  options.capacity = most_live(buffers);
  options.time_limit = std::chrono::duration<double>(0.05);
  const auto begin = std::chrono::steady_clock::now();
  const IntervalPacking packing = pack_intervals(buffers, options);
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::seconds(20));  // wide: shared machines and sanitizers
  EXPECT_NE(packing.outcome, PackingOutcome::kInfeasible);
  EXPECT_TRUE(is_valid(buffers, packing.offsets, 1));
}

TEST(IntervalPacking, RejectsWhatHasNoMeaning) {
  const std::vector<IntervalBuffer> empty_life = {{3, 3, 1}};
  EXPECT_THROW(pack_intervals(empty_life), Error);
  const std::vector<IntervalBuffer> huge = {{0, 1, UINT64_MAX / 2}, {0, 1, UINT64_MAX / 2}, {0, 1, 9}};
  EXPECT_THROW(pack_intervals(huge), Error);
  const std::vector<IntervalBuffer> good = {{0, 1, 1}};
  IntervalOptions options;
  options.alignment = 0;
  EXPECT_THROW(pack_intervals(good, options), Error);
  options = {};
  options.time_limit = std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(pack_intervals(good, options), Error);
}

}  // namespace
}  // namespace zeroplan::planner
