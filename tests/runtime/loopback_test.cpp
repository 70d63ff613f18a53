#include "runtime/comm/loopback.h"

#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "models/core/error.h"
#include "runtime/comm/ordered_sum.h"

namespace zeroplan::runtime {
namespace {

/// Runs `work(collectives)` on a thread for each rank.
template <class Work>
void on_all_ranks(std::uint64_t ranks, StopSignal& stop, const Work& work) {
  LoopbackGroup group(ranks, stop);
  std::vector<std::unique_ptr<Collectives>> ends;
  for (std::uint64_t r = 0; r < ranks; ++r) ends.push_back(group.rank(r));
  std::vector<std::jthread> threads;
  for (auto& end : ends) {
    threads.emplace_back([&] {
      try {
        work(*end);
      } catch (const Stopped&) {
      } catch (...) {
        stop.raise(std::current_exception());
      }
    });
  }
}

float value(std::uint64_t rank, std::size_t i) {
  return 0.1f * static_cast<float>(rank + 1) + static_cast<float>(i) / 7;
}

/// A whole group of `ranks` shards with this rank's values everywhere.
std::vector<float> whole_group(std::uint64_t ranks, std::uint64_t shard, std::uint64_t rank) {
  std::vector<float> all(ranks * shard);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = value(rank, i);
  return all;
}

float sum_over_ranks(std::uint64_t ranks, std::size_t i) {
  float sum = value(0, i);
  for (std::uint64_t r = 1; r < ranks; ++r) sum += value(r, i);
  return sum;
}

class LoopbackOfRanks : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(LoopbackOfRanks, AllGatherBringsEveryShardToEveryRank) {
  const std::uint64_t ranks = GetParam();
  constexpr std::uint64_t kShard = 37;
  std::vector<std::vector<float>> results(ranks);
  StopSignal stop;
  on_all_ranks(ranks, stop, [&](Collectives& c) {
    std::vector<float> shard(kShard);
    for (std::size_t i = 0; i < kShard; ++i) shard[i] = value(c.rank(), i);
    auto& whole = results[c.rank()];
    whole.assign(ranks * kShard, -1);
    CollectiveCall call;
    call.source_is_shard = true;
    // Two pieces that leave the last element out.
    call.pieces = {{shard.data(), whole.data(), kShard, 0, 5}, {shard.data(), whole.data(), kShard, 5, kShard - 1}};
    c.all_gather(Channel::kGather, call);
  });
  ASSERT_FALSE(stop.raised());
  for (const auto& whole : results) {
    for (std::uint64_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < kShard; ++i) {
        EXPECT_EQ(whole[r * kShard + i], i + 1 < kShard ? value(r, i) : -1);
      }
    }
  }
}

TEST_P(LoopbackOfRanks, ReduceScatterSumsInRankOrderAndAccumulates) {
  const std::uint64_t ranks = GetParam();
  constexpr std::uint64_t kShard = 33;
  std::vector<std::vector<float>> shards(ranks);
  StopSignal stop;
  on_all_ranks(ranks, stop, [&](Collectives& c) {
    std::vector<float> source = whole_group(ranks, kShard, c.rank());
    auto& shard = shards[c.rank()];
    shard.assign(kShard, 0);
    CollectiveCall call;
    call.destination_is_shard = true;
    call.pieces = {{source.data(), shard.data(), kShard, 0, kShard}};
    c.reduce_scatter(Channel::kReduce, call);
    call.accumulate = true;
    c.reduce_scatter(Channel::kReduce, call);
  });
  ASSERT_FALSE(stop.raised());
  for (std::uint64_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < kShard; ++i) {
      const float once = sum_over_ranks(ranks, r * kShard + i);
      EXPECT_EQ(shards[r][i], once + once);
    }
  }
}

TEST_P(LoopbackOfRanks, AllReduceInPlaceGivesAllRanksTheSameBits) {
  const std::uint64_t ranks = GetParam();
  constexpr std::uint64_t kShard = 21;
  std::vector<std::vector<float>> groups(ranks);
  StopSignal stop;
  on_all_ranks(ranks, stop, [&](Collectives& c) {
    groups[c.rank()] = whole_group(ranks, kShard, c.rank());
    float* data = groups[c.rank()].data();
    CollectiveCall call;
    call.pieces = {{data, data, kShard, 0, 8}, {data, data, kShard, 8, kShard}};
    c.all_reduce(Channel::kReduce, call);
  });
  ASSERT_FALSE(stop.raised());
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) EXPECT_EQ(group[i], sum_over_ranks(ranks, i));
  }
}

INSTANTIATE_TEST_SUITE_P(OddAndEven, LoopbackOfRanks, ::testing::Values(1, 2, 3, 4, 5));

TEST(Loopback, EndsPeersOfARankThatFails) {
  StopSignal stop;
  std::atomic<int> stopped{0};
  on_all_ranks(3, stop, [&](Collectives& c) {
    if (c.rank() == 1) throw Error(ErrorCode::kInternal, "rank 1 fails");
    float data[3] = {};
    CollectiveCall call;
    call.pieces = {{data, data, 1, 0, 1}};
    try {
      c.all_reduce(Channel::kReduce, call);
    } catch (const Stopped&) {
      ++stopped;
      throw;
    }
  });
  EXPECT_EQ(stopped, 2);
  try {
    std::rethrow_exception(stop.error());
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "rank 1 fails");
  }
}

TEST(OrderedSum, OfBf16RoundsOnceToNearestEven) {
  // 1 + 2^-8 + 2^-8: each addend alone would be rounded away in bf16.
  const std::uint16_t one = 0x3f80;
  const std::uint16_t small = 0x3b80;
  const void* parts[] = {&one, &small, &small};
  std::uint16_t out = 0;
  ordered_sum(DType::kBf16, parts, 1, false, &out);
  EXPECT_EQ(out, 0x3f81);
}

TEST(OrderedSum, OfFp16RoundsOnceAndOverflowsToInfinity) {
  // 1 + 2^-11 + 2^-11: each addend alone would be rounded away in fp16. 65504 + 16 is halfway to what lies beyond.
  const std::uint16_t first[] = {0x3c00, 0x7bff};
  const std::uint16_t small[] = {0x1000, 0x4c00};
  const std::uint16_t last[] = {0x1000, 0x0000};
  const void* parts[] = {first, small, last};
  std::uint16_t out[2] = {};
  ordered_sum(DType::kFp16, parts, 2, false, out);
  EXPECT_EQ(out[0], 0x3c01);
  EXPECT_EQ(out[1], 0x7c00);
}

TEST(OrderedSum, RefusesOtherTypes) {
  const std::int32_t one = 1;
  const void* parts[] = {&one};
  std::int32_t out = 0;
  EXPECT_THROW(ordered_sum(DType::kInt32, parts, 1, false, &out), Error);
}

}  // namespace
}  // namespace zeroplan::runtime
