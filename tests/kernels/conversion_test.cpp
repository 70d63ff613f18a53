#include <bit>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "kernels/ranges.h"
#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

std::vector<float> to_floats(DType type, const std::vector<std::uint16_t>& values) {
  Workers workers(1);
  std::vector<float> result(values.size());
  cpu::copy({.dtype = type, .count = values.size(), .x = values.data(), .out = result.data()}, workers);
  return result;
}
std::vector<std::uint16_t> from_floats(DType type, const std::vector<float>& values) {
  Workers workers(1);
  std::vector<std::uint16_t> result(values.size());
  cpu::copy({.out_dtype = type, .count = values.size(), .x = values.data(), .out = result.data()}, workers);
  return result;
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

class Conversion : public ::testing::TestWithParam<DType> {};

/// The twin converts one by one; vectors and tails of the CPU kernels must agree with it.
TEST_P(Conversion, OfAllPatternsIsExactAndComesBack) {
  const auto patterns = all_patterns();
  const auto floats = to_floats(GetParam(), patterns);
  std::vector<float> expected(patterns.size());
  reference::copy({.dtype = GetParam(), .count = patterns.size(), .x = patterns.data(), .out = expected.data()});
  const auto back = from_floats(GetParam(), floats);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    std::uint16_t one_back = 0;
    const auto one = to_floats(GetParam(), {patterns[i]});
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(floats[i]) && std::isnan(one[0])) << "pattern " << i;
      ASSERT_TRUE(std::isnan(to_floats(GetParam(), {back[i]})[0])) << "pattern " << i;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[i]), std::bit_cast<std::uint32_t>(expected[i])) << "pattern " << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(one[0]), std::bit_cast<std::uint32_t>(expected[i])) << "pattern " << i;
    one_back = from_floats(GetParam(), one)[0];
    ASSERT_EQ(back[i], patterns[i]);
    ASSERT_EQ(one_back, patterns[i]);
  }
}

/// Between each two neighbours: their middle goes to the even one, what lies a unit of fp32 beside it to the nearer.
TEST_P(Conversion, RoundsToNearestEven) {
  const auto patterns = all_patterns();
  const auto floats = to_floats(GetParam(), patterns);
  const std::uint16_t infinity = from_floats(GetParam(), {std::numeric_limits<float>::infinity()})[0];
  std::vector<float> values;
  std::vector<std::uint16_t> expected;
  for (std::uint16_t low = 0; low + 1 < infinity; ++low) {
    const float middle =
        static_cast<float>((static_cast<double>(floats[low]) + static_cast<double>(floats[low + 1u])) / 2);
    const std::uint16_t high = static_cast<std::uint16_t>(low + 1);
    const std::uint16_t even = low % 2 == 0 ? low : high;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(middle);
    for (const auto& [value, result] : {std::pair(bits, even), {bits - 1, low}, {bits + 1, high}}) {
      values.push_back(std::bit_cast<float>(value));
      expected.push_back(result);
      values.push_back(-values.back());
      expected.push_back(static_cast<std::uint16_t>(result | 0x8000u));
    }
  }
  // Beyond the largest number: as if there were a next one, which is infinity.
  const float largest = floats[infinity - 1u];
  const float step = largest - floats[infinity - 2u];
  const float half = largest + step / 2;
  values.insert(values.end(), {half, std::nextafter(half, 0.0f)});
  expected.insert(expected.end(), {infinity, static_cast<std::uint16_t>(infinity - 1)});
  const auto actual = from_floats(GetParam(), values);
  std::vector<std::uint16_t> twin(values.size());
  reference::copy({.out_dtype = GetParam(), .count = values.size(), .x = values.data(), .out = twin.data()});
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(actual[i], expected[i]) << values[i];
    ASSERT_EQ(twin[i], expected[i]) << values[i];
  }
}

/// What an older processor would run gives the same bits.
TEST_P(Conversion, IsTheSameWithEveryInstructionSet) {
  const auto patterns = all_patterns();
  const auto expected = to_floats(GetParam(), patterns);
  const auto values = random_floats(70001, 5, 3e4);
  const auto expected_bits = from_floats(GetParam(), values);
  const auto choose = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    choose(left & -left);
    const auto floats = to_floats(GetParam(), patterns);
    const auto bits = from_floats(GetParam(), values);
    choose(0);
    EXPECT_TRUE(same_bits(floats, expected)) << "target " << (left & -left);
    EXPECT_EQ(bits, expected_bits) << "target " << (left & -left);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Conversion, ::testing::Values(DType::kBf16, DType::kFp16));

}  // namespace
}  // namespace zeroplan::kernels
