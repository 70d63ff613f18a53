#include "kernels/workers.h"

#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace zeroplan::kernels {
namespace {

TEST(Workers, EveryWorkerRunsOncePerCall) {
  for (int count : {1, 2, 3, 8}) {
    Workers workers(count);
    std::vector<int> calls(static_cast<std::size_t>(count), 0);
    for (int repeat = 0; repeat < 200; ++repeat) {
      workers.run([&](int worker) { ++calls[static_cast<std::size_t>(worker)]; });
    }
    for (int n : calls) EXPECT_EQ(n, 200);
  }
}

TEST(Workers, RangesCoverEachIndexOnce) {
  Workers workers(3);
  for (std::size_t n : {0u, 1u, 15u, 16u, 17u, 1000u}) {
    for (std::size_t granule : {1u, 16u, 2048u}) {
      std::vector<int> touched(n, 0);
      workers.run_ranges(n, granule, [&](IndexRange range) {
        EXPECT_TRUE(range.begin % granule == 0 && range.begin < range.end);
        for (std::size_t i = range.begin; i < range.end; ++i) ++touched[i];
      });
      for (int times : touched) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Workers, SleepersWakeUp) {
  Workers workers(4);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // beyond the spinning
    std::vector<int> calls(4, 0);
    workers.run([&](int worker) { calls[static_cast<std::size_t>(worker)] = 1; });
    EXPECT_EQ(std::accumulate(calls.begin(), calls.end(), 0), 4);
  }
}

TEST(Workers, PoolsOfSeveralThreadsWorkSideBySide) {
  std::vector<std::size_t> sums(4, 0);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&sums, rank] {
      Workers workers(3);
      for (int repeat = 0; repeat < 100; ++repeat) {
        std::size_t parts[3] = {};
        workers.run([&](int worker) { parts[worker] = static_cast<std::size_t>(worker) + 1; });
        sums[rank] += parts[0] + parts[1] + parts[2];
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t sum : sums) EXPECT_EQ(sum, 600u);
}

}  // namespace
}  // namespace zeroplan::kernels
