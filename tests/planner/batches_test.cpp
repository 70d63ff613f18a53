#include "planner/batches.h"

#include <gtest/gtest.h>

namespace zeroplan::planner {
namespace {

TEST(Batches, BeginWithOneAndDivide) {
  EXPECT_EQ(batches_of(1, 8), (std::vector<Batch>{{1, 1}}));
  EXPECT_EQ(batches_of(8, 8), (std::vector<Batch>{{1, 8}, {2, 4}, {4, 2}, {8, 1}}));
  EXPECT_EQ(batches_of(12, 8), (std::vector<Batch>{{1, 12}, {2, 6}, {3, 4}, {6, 2}, {12, 1}}));
  for (const Batch& batch : batches_of(5040, 8)) EXPECT_EQ(batch.micro * batch.accumulation, 5040u);
}

TEST(Batches, LargeSharesStillOfferSmallMicroBatches) {
  const auto batches = batches_of(4096, 8);
  ASSERT_EQ(batches.size(), 8u);
  EXPECT_EQ(batches.front().micro, 1u);
  EXPECT_EQ(batches.back().micro, 128u);
}

TEST(Batches, HugePrimeSharesEndAtOnce) {
  EXPECT_EQ(batches_of(1'000'000'000'000'000'003, 8), (std::vector<Batch>{{1, 1'000'000'000'000'000'003}}));
}

}  // namespace
}  // namespace zeroplan::planner
