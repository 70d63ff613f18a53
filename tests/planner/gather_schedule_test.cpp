#include "planner/schedule/gather_schedule.h"

#include <gtest/gtest.h>

namespace zeroplan::planner {
namespace {

/// Forward over four groups, then backward: 0 1 2 3 3 2 1 0.
const std::vector<std::vector<std::uint32_t>> kThereAndBack = {{0}, {1}, {2}, {3}, {3}, {2}, {1}, {0}};
const std::vector<std::uint64_t> kTen = {10, 10, 10, 10};

TEST(GatherSchedule, WithoutPrefetchEachGatherWaitsForTheTaskBefore) {
  const auto stays = schedule_gathers(kThereAndBack, kTen, {.prefetch = 0, .max_live = 100, .reuse_distance = 0});
  for (const Residency& r : stays) EXPECT_EQ(r.issued_after, static_cast<std::int64_t>(r.first_use) - 1);
  EXPECT_EQ(most_live(stays, kTen, kThereAndBack.size()), 10u);
}

TEST(GatherSchedule, NeighbouringUsesShareOneStayAtDistanceZero) {
  const auto stays = schedule_gathers(kThereAndBack, kTen, {.prefetch = 0, .max_live = 100, .reuse_distance = 0});
  ASSERT_EQ(stays.size(), 7u);  // group 3 is used twice in a row
  EXPECT_EQ(stays[3].first_use, 3u);
  EXPECT_EQ(stays[3].last_use, 4u);
}

TEST(GatherSchedule, PrefetchRunsAheadAsFarAsItsElements) {
  const auto stays = schedule_gathers(kThereAndBack, kTen, {.prefetch = 20, .max_live = 100, .reuse_distance = 0});
  EXPECT_EQ(stays[1].issued_after, -1);
  EXPECT_EQ(stays[2].issued_after, -1);
  EXPECT_EQ(stays[3].issued_after, 0);
}

TEST(GatherSchedule, MaxLiveHoldsPrefetchBack) {
  const auto stays = schedule_gathers(kThereAndBack, kTen, {.prefetch = 100, .max_live = 20, .reuse_distance = 0});
  EXPECT_LE(most_live(stays, kTen, kThereAndBack.size()), 20u);
  EXPECT_GT(most_live(stays, kTen, kThereAndBack.size()), 10u);
}

TEST(GatherSchedule, ReuseKeepsTheNearestFirst) {
  const auto stays = schedule_gathers(kThereAndBack, kTen, {.prefetch = 0, .max_live = 20, .reuse_distance = 100});
  // Room for one group beside the running one: group 2 (distance 20) stays, 1 (40) and 0 (60) do not.
  std::size_t stays_of_2 = 0;
  for (const Residency& r : stays) stays_of_2 += r.group == 2 ? 1 : 0;
  EXPECT_EQ(stays_of_2, 1u);
  EXPECT_EQ(stays.size(), 6u);
  EXPECT_LE(most_live(stays, kTen, kThereAndBack.size()), 20u);
}

TEST(GatherSchedule, AGroupIsNeverGatheredTwiceAtOnce) {
  const std::vector<std::vector<std::uint32_t>> uses = {{0}, {1}, {0}, {1}};
  const auto stays = schedule_gathers(uses, kTen, {.prefetch = 1000, .max_live = 1000, .reuse_distance = 0});
  for (const Residency& a : stays) {
    for (const Residency& b : stays) {
      if (&a < &b && a.group == b.group) {
        EXPECT_GE(b.issued_after, static_cast<std::int64_t>(a.last_use));
      }
    }
  }
}

TEST(GatherSchedule, OneTaskBeyondMaxLiveIsAnError) {
  EXPECT_THROW(schedule_gathers({{0, 1}}, kTen, {.prefetch = 0, .max_live = 19, .reuse_distance = 0}), Error);
}

}  // namespace
}  // namespace zeroplan::planner
