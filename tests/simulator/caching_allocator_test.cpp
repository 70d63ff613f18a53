#include "simulator/caching_allocator.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "models/core/error.h"

namespace zeroplan::simulator {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(CachingAllocator, RoundsRequestsTo512Bytes) {
  const CachingAllocator a;
  EXPECT_EQ(a.rounded(1), 512u);
  EXPECT_EQ(a.rounded(512), 512u);
  EXPECT_EQ(a.rounded(513), 1024u);
}

TEST(CachingAllocator, RoundsToStepsBetweenPowersOfTwoWhenAsked) {
  const CachingAllocator a({.roundup_power2_divisions = 4});
  EXPECT_EQ(a.rounded(1200 * kMiB), 1280 * kMiB);  // steps of 256 MiB above 1 GiB
  EXPECT_EQ(a.rounded(1024), 1024u);
  EXPECT_EQ(a.rounded(1025), 1536u);  // too small for steps
}

// Segment sizes that were measured on a card: 1,048,577 B takes 20 MiB, 10,485,760 B takes 10 MiB, one byte more 12
// MiB.
TEST(CachingAllocator, SegmentsHaveTheMeasuredSizes) {
  const auto reserved_for = [](std::uint64_t bytes) {
    CachingAllocator a;
    a.allocate(bytes);
    return a.reserved_bytes();
  };
  EXPECT_EQ(reserved_for(1), 2 * kMiB);
  EXPECT_EQ(reserved_for(kMiB), 2 * kMiB);
  EXPECT_EQ(reserved_for(kMiB + 1), 20 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB + 1), 12 * kMiB);
}

TEST(CachingAllocator, KeepsARemainderOfUpToOneMiBInTheBlock) {
  CachingAllocator a;
  const BlockId big = a.allocate(30 * kMiB);
  a.release(big);
  const BlockId b = a.allocate(29 * kMiB);  // 1 MiB left over: not split, and counted as allocated
  EXPECT_EQ(a.size_of(b), 30 * kMiB);
  EXPECT_EQ(a.allocated_bytes(), 30 * kMiB);
  a.release(b);
  const BlockId c = a.allocate(29 * kMiB - 512);
  EXPECT_EQ(a.size_of(c), 29 * kMiB - 512);
  EXPECT_EQ(a.reserved_bytes(), 30 * kMiB);
}

TEST(CachingAllocator, TakesTheSmallestBlockThatFits) {
  CachingAllocator a;
  const BlockId large = a.allocate(40 * kMiB);
  const BlockId small = a.allocate(20 * kMiB);
  a.release(large);
  a.release(small);
  a.allocate(20 * kMiB);
  a.allocate(40 * kMiB);
  EXPECT_EQ(a.reserved_bytes(), 60 * kMiB);
}

TEST(CachingAllocator, MergesFreeNeighbours) {
  CachingAllocator a;
  const BlockId whole = a.allocate(60 * kMiB);
  a.release(whole);
  const BlockId x = a.allocate(20 * kMiB);
  const BlockId y = a.allocate(20 * kMiB);
  const BlockId z = a.allocate(20 * kMiB);
  a.release(x);
  a.release(z);
  a.release(y);
  a.allocate(60 * kMiB);
  EXPECT_EQ(a.reserved_bytes(), 60 * kMiB);
}

TEST(CachingAllocator, NeverCrossesStreams) {
  CachingAllocator a;
  a.release(a.allocate(40 * kMiB, 0));
  a.allocate(40 * kMiB, 1);
  EXPECT_EQ(a.reserved_bytes(), 80 * kMiB);
}

TEST(CachingAllocator, ExpandableSegmentGrowsInsteadOfFragmenting) {
  const auto reserved_with = [](bool expandable) {
    CachingAllocator a({.expandable_segments = expandable});
    for (std::uint64_t size = 30; size <= 120; size += 30) a.release(a.allocate(size * kMiB));
    return a.reserved_bytes();
  };
  EXPECT_EQ(reserved_with(false), 300 * kMiB);
  EXPECT_EQ(reserved_with(true), 120 * kMiB);
}

TEST(CachingAllocator, NeverSplitsBlocksAboveTheLimit) {
  CachingAllocator a({.max_split_bytes = 64 * kMiB});
  a.release(a.allocate(100 * kMiB));
  a.allocate(10 * kMiB);  // may not take the large block
  EXPECT_EQ(a.reserved_bytes(), 110 * kMiB);
  a.allocate(90 * kMiB);  // within 20 MiB of it: takes it whole
  EXPECT_EQ(a.reserved_bytes(), 110 * kMiB);
  EXPECT_EQ(a.allocated_bytes(), 110 * kMiB);
}

TEST(CachingAllocator, GivesBackFreeSegmentsAtTheDevicesLimit) {
  CachingAllocator a({.capacity_bytes = 100 * kMiB});
  a.release(a.allocate(60 * kMiB));
  a.allocate(80 * kMiB);
  EXPECT_EQ(a.reserved_bytes(), 80 * kMiB);
  EXPECT_FALSE(a.exceeded_capacity());
  a.allocate(60 * kMiB);
  EXPECT_TRUE(a.exceeded_capacity());
}

TEST(CachingAllocator, NothingIsHandedOutForNoBytes) {
  CachingAllocator a;
  EXPECT_EQ(a.allocate(0), kNoBlock);
  a.release(kNoBlock);
  EXPECT_EQ(a.reserved_bytes(), 0u);
}

TEST(CachingAllocator, ReleasingTwiceIsAnError) {
  CachingAllocator a;
  const BlockId b = a.allocate(512);
  a.release(b);
  EXPECT_THROW(a.release(b), Error);
}

// Whatever the order: allocated is the sum of live blocks, reserved never below it, and all of it merges back to
// nothing.
TEST(CachingAllocator, AccountsForRandomTraces) {
  for (const bool expandable : {false, true}) {
    std::mt19937 random(7);
    CachingAllocator a({.expandable_segments = expandable});
    std::map<BlockId, std::uint64_t> live;
    std::uint64_t sum = 0;
    for (int i = 0; i < 20000; ++i) {
      if (live.empty() || random() % 100 < 52) {
        const std::uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 64 * kMiB : 3 * kMiB);
        const BlockId b = a.allocate(bytes, random() % 2);
        ASSERT_GE(a.size_of(b), bytes);
        ASSERT_TRUE(live.emplace(b, a.size_of(b)).second);
        sum += a.size_of(b);
      } else {
        auto it = live.begin();
        std::advance(it, random() % live.size());
        sum -= it->second;
        a.release(it->first);
        live.erase(it);
      }
      ASSERT_EQ(a.allocated_bytes(), sum);
      ASSERT_GE(a.reserved_bytes(), sum);
    }
    for (const auto& [block, bytes] : live) a.release(block);
    EXPECT_EQ(a.allocated_bytes(), 0u);
    a.empty_cache();
    EXPECT_EQ(a.reserved_bytes(), 0u);
  }
}

}  // namespace
}  // namespace zeroplan::simulator
