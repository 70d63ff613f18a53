#include "planner/packing/instance_csv.h"

#include <gtest/gtest.h>

#include "models/core/error.h"

namespace zeroplan::planner {
namespace {

/// A public-format instance of our own: two long buffers, three short ones that fit beside them only in one way.
constexpr std::string_view kSmall =
    "id,lower,upper,size\n"
    "weights,0,10,40\n"
    "early,0,4,30\n"
    "middle,3,7,30\n"
    "late,6,10,30\n"
    "flash,4,6,30\n";

TEST(InstanceCsv, ReadsThePublicFormat) {
  const NamedInstance instance = read_instance_csv(kSmall, "small.csv");
  ASSERT_EQ(instance.ids.size(), 5u);
  EXPECT_EQ(instance.ids[3], "late");
  EXPECT_EQ(instance.buffers[3].first, 6);
  EXPECT_EQ(instance.buffers[3].last, 10);
  EXPECT_EQ(instance.buffers[3].size, 30u);
  IntervalOptions options;
  options.capacity = 100;
  const IntervalPacking packing = pack_intervals(instance.buffers, options);
  EXPECT_EQ(packing.outcome, PackingOutcome::kPacked);
  EXPECT_EQ(packing.height, 100u);
}

TEST(InstanceCsv, TakesColumnsInAnyOrderCarriageReturnsAndAByteOrderMark) {
  const NamedInstance instance =
      read_instance_csv("\xef\xbb\xbfsize,id,note,upper,lower\r\n 5 ,a,x,9,2\r\n\r\n", "x.csv");
  ASSERT_EQ(instance.ids.size(), 1u);
  EXPECT_EQ(instance.buffers[0].size, 5u);
  EXPECT_EQ(instance.buffers[0].first, 2);
  EXPECT_EQ(instance.buffers[0].last, 9);
}

TEST(InstanceCsv, WritesWhatItReadsWithOffsets) {
  const NamedInstance instance = read_instance_csv(kSmall, "small.csv");
  const std::vector<std::uint64_t> offsets = {0, 40, 70, 40, 40};
  const std::string text = write_packing_csv(instance, offsets);
  EXPECT_TRUE(text.starts_with("id,lower,upper,size,offset\nweights,0,10,40,0\n"));
  EXPECT_EQ(read_instance_csv(text, "out.csv").ids, instance.ids);
}

struct Malformed {
  const char* name;
  const char* text;
  std::uint64_t line;
};

class MalformedCsv : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedCsv, IsRejectedWithItsLine) {
  try {
    read_instance_csv(GetParam().text, "bad.csv");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidInput);
    EXPECT_EQ(e.place().file, "bad.csv");
    EXPECT_EQ(e.place().line, GetParam().line) << e.message();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, MalformedCsv,
    testing::Values(Malformed{"empty", "", 0}, Malformed{"no_size_column", "id,lower,upper\n", 1},
                    Malformed{"column_twice", "id,lower,upper,size,size\n", 1},
                    Malformed{"duplicate_id", "id,lower,upper,size\na,0,1,1\na,1,2,1\n", 3},
                    Malformed{"empty_id", "id,lower,upper,size\n,0,1,1\n", 2},
                    Malformed{"negative_size", "id,lower,upper,size\na,0,1,-1\n", 2},
                    Malformed{"negative_time", "id,lower,upper,size\na,-1,1,1\n", 2},
                    Malformed{"empty_life", "id,lower,upper,size\na,4,4,1\n", 2},
                    Malformed{"backward_life", "id,lower,upper,size\na,5,4,1\n", 2},
                    Malformed{"beyond_63_bits", "id,lower,upper,size\na,0,1,9223372036854775808\n", 2},
                    Malformed{"far_beyond", "id,lower,upper,size\na,0,1,99999999999999999999999999\n", 2},
                    Malformed{"fraction", "id,lower,upper,size\na,0,1,1.5\n", 2},
                    Malformed{"exponent", "id,lower,upper,size\na,0,1,1e400\n", 2},
                    Malformed{"word", "id,lower,upper,size\na,0,nan,1\n", 2},
                    Malformed{"missing_field", "id,lower,upper,size\na,0,1\n", 2},
                    Malformed{"extra_field", "id,lower,upper,size\na,0,1,1,1\n", 2},
                    Malformed{"quoted", "id,lower,upper,size\n\"a\",0,1,1\n", 2}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace zeroplan::planner
