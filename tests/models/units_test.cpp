#include "models/core/units.h"

#include <gtest/gtest.h>

#include "models/core/dtype.h"
#include "models/core/text.h"

namespace zeroplan {
namespace {

TEST(Units, AdditionBeyond64BitsThrows) {
  const Bytes most(std::numeric_limits<std::uint64_t>::max());
  EXPECT_THROW(most + Bytes(1), Error);
  EXPECT_THROW(Bytes(1) - Bytes(2), Error);
  EXPECT_THROW(Bytes(1ULL << 40) * (1ULL << 40), Error);
}

TEST(Units, ElementsTimesTypeAreBytes) {
  EXPECT_EQ(Elements(10) * DType::kBf16, Bytes(20));
}

TEST(Text, SizesInBothSystems) {
  EXPECT_EQ(parse_size("24GiB", "--budget"), Bytes(24ULL << 30));
  EXPECT_EQ(parse_size("1.5TB", "--budget"), Bytes(1'500'000'000'000));
  EXPECT_EQ(parse_size("4096", "--budget"), Bytes(4096));
  for (const char* wrong : {"", "-1GiB", "1e400", "nan", "12 apples", "GiB", "99999999999TiB"}) {
    EXPECT_THROW(parse_size(wrong, "--budget"), Error) << wrong;
  }
}

TEST(Text, CountsMayBeScientific) {
  EXPECT_EQ(parse_count("5e8", "--sub-group-size"), 500'000'000u);
  for (const char* wrong : {"", "-1", "1.5", "inf", "1e30", "8 "}) {
    EXPECT_THROW(parse_count(wrong, "--gpus"), Error) << wrong;
  }
}

TEST(Text, CountsAreGrouped) {
  EXPECT_EQ(format_count(124439808), "124,439,808");
  EXPECT_EQ(format_count(999), "999");
}

}  // namespace
}  // namespace zeroplan
