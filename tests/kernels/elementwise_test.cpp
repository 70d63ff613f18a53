#include <gtest/gtest.h>

#include "kernels/gated_silu.h"
#include "kernels/gelu.h"
#include "kernels/ranges.h"
#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

constexpr std::size_t kCount = 5003;

/// Values from -100 to 100 with many near 0.
std::vector<float> spread_values() {
  auto values = random_floats(kCount, 11, 2);
  for (std::size_t i = 0; i < kCount; i += 7) values[i] *= 12;
  values[0] = 0;
  values[1] = 100;
  values[2] = -100;
  return values;
}

// sigmoid(w): the exponent w itself carries 4 roundings, |w| e^-|w| < 0.4 makes them at most 2 in the result; exp adds
// 4, the division
// 2. Then two products. So 12 roundoffs of |x|; and 1.2e-38 x |x| where exp stops at its smallest argument.
TEST(Gelu, ForwardMatchesReference) {
  const auto x = spread_values();
  const auto wide = widen(x);
  std::vector<double> expected(kCount);
  reference::gelu_forward({.dtype = DType::kFp64, .count = kCount, .x = wide.data(), .y = expected.data()});
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> y(kCount);
    cpu::gelu_forward({.count = kCount, .x = x.data(), .y = y.data()}, workers);
    return y;
  });
  expect_within(actual, expected, [&](std::size_t i) { return 12 * kRoundoff * std::abs(wide[i]) + 1e-36; });
}

// The slope adds x s (1 - s) dw/dx: s and 1 - s are good to 12 roundoffs of 1, and |x dw/dx| <= 1.6 |x| + 0.22 |x|^3
// with (1 - s) below e^-|w|; where |x| > 8 that is nothing.
TEST(Gelu, BackwardMatchesReference) {
  const auto x = spread_values();
  const auto d_y = random_floats(kCount, 12);
  const auto wide = widen(x);
  const auto wide_d_y = widen(d_y);
  std::vector<double> expected(kCount);
  reference::gelu_backward(
      {.dtype = DType::kFp64, .count = kCount, .d_y = wide_d_y.data(), .x = wide.data(), .d_x = expected.data()});
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> d_x(kCount);
    cpu::gelu_backward({.count = kCount, .d_y = d_y.data(), .x = x.data(), .d_x = d_x.data()}, workers);
    return d_x;
  });
  expect_within(actual, expected, [&](std::size_t i) {
    const double a = std::abs(wide[i]);
    // For positive x, 1 - s cannot be finer than a roundoff of 1, and the factor before it grows.
    return (16 + 24 * (1.6 * a + 0.22 * a * a * a)) * kRoundoff * std::abs(wide_d_y[i]) + 1e-30;
  });
}

TEST(Gelu, GradientMatchesFiniteDifferences) {
  auto x = widen(random_floats(40, 1, 2));
  const auto d_y = widen(random_floats(40, 2));
  std::vector<double> d_x(40);
  reference::gelu_backward({.dtype = DType::kFp64, .count = 40, .d_y = d_y.data(), .x = x.data(), .d_x = d_x.data()});
  expect_gradient(
      x, d_x,
      [&] {
        std::vector<double> y(40);
        reference::gelu_forward({.dtype = DType::kFp64, .count = 40, .x = x.data(), .y = y.data()});
        return dot(y, d_y);
      },
      1);
}

TEST(GatedSilu, MatchesReference) {
  const auto gate = spread_values();
  const auto up = random_floats(kCount, 12);
  const auto d_y = random_floats(kCount, 13);
  const auto wide_gate = widen(gate), wide_up = widen(up), wide_d_y = widen(d_y);
  std::vector<double> expected(kCount), d_gate(kCount), d_up(kCount);
  reference::gated_silu_forward(
      {.dtype = DType::kFp64, .count = kCount, .gate = wide_gate.data(), .up = wide_up.data(), .y = expected.data()});
  reference::gated_silu_backward({.dtype = DType::kFp64,
                                  .count = kCount,
                                  .d_y = wide_d_y.data(),
                                  .gate = wide_gate.data(),
                                  .up = wide_up.data(),
                                  .d_gate = d_gate.data(),
                                  .d_up = d_up.data()});
  expected.insert(expected.end(), d_gate.begin(), d_gate.end());
  expected.insert(expected.end(), d_up.begin(), d_up.end());
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> result(3 * kCount);
    cpu::gated_silu_forward({.count = kCount, .gate = gate.data(), .up = up.data(), .y = result.data()}, workers);
    cpu::gated_silu_backward({.count = kCount,
                              .d_y = d_y.data(),
                              .gate = gate.data(),
                              .up = up.data(),
                              .d_gate = result.data() + kCount,
                              .d_up = result.data() + 2 * kCount},
                             workers);
    return result;
  });
  // 12 roundoffs as for GELU, of the product of the factors; the slope of SiLU cancels, so its terms 1 and |gate| count
  // in full.
  expect_within(actual, expected, [&](std::size_t i) {
    const double g = std::abs(wide_gate[i % kCount]);
    const double u = std::abs(wide_up[i % kCount]);
    const double d = std::abs(wide_d_y[i % kCount]);
    if (i < kCount) return 12 * kRoundoff * g * u + 1e-35;
    if (i < 2 * kCount) return 16 * kRoundoff * d * u * (1 + g) + 1e-35;
    return 12 * kRoundoff * d * g + 1e-35;
  });
}

TEST(GatedSilu, GradientMatchesFiniteDifferences) {
  auto gate = widen(random_floats(40, 1, 2));
  auto up = widen(random_floats(40, 2));
  const auto d_y = widen(random_floats(40, 3));
  std::vector<double> d_gate(40), d_up(40);
  reference::gated_silu_backward({.dtype = DType::kFp64,
                                  .count = 40,
                                  .d_y = d_y.data(),
                                  .gate = gate.data(),
                                  .up = up.data(),
                                  .d_gate = d_gate.data(),
                                  .d_up = d_up.data()});
  const auto loss = [&] {
    std::vector<double> y(40);
    reference::gated_silu_forward(
        {.dtype = DType::kFp64, .count = 40, .gate = gate.data(), .up = up.data(), .y = y.data()});
    return dot(y, d_y);
  };
  expect_gradient(gate, d_gate, loss, 1);
  expect_gradient(up, d_up, loss, 1);
}

TEST(Activations, NanAndInfinityStayVisible) {
  Workers workers(1);
  std::vector<float> x = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  std::vector<float> y(2);
  cpu::gelu_forward({.count = 2, .x = x.data(), .y = y.data()}, workers);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_FALSE(std::isfinite(y[1]));
}

TEST(Ranges, ElementwiseOperationsAreExact) {
  const auto a = random_floats(kCount, 1);
  const auto b = random_floats(kCount, 2);
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> result(4 * kCount);
    float* at = result.data();
    cpu::add({.count = kCount, .a = a.data(), .b = b.data(), .out = at}, workers);
    cpu::copy({.count = kCount, .x = a.data(), .out = at + kCount}, workers);
    cpu::copy({.count = kCount, .x = a.data(), .out = at + 2 * kCount}, workers);
    cpu::scale({.count = kCount, .x = at + 2 * kCount, .factor = 0.3f}, workers);
    cpu::fill({.count = kCount, .x = at + 3 * kCount, .value = -2.5f}, workers);
    return result;
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(actual[i], a[i] + b[i]);
    ASSERT_EQ(actual[kCount + i], a[i]);
    ASSERT_EQ(actual[2 * kCount + i], a[i] * 0.3f);
    ASSERT_EQ(actual[3 * kCount + i], -2.5f);
  }
}

// fp64 throughout: count + 8 roundings of 2^-53 of a sum of positive terms.
TEST(SumOfSquares, MatchesReferenceAndDoesNotDependOnWorkers) {
  for (std::size_t count : {0u, 1u, 9u, 2048u, 5003u, 1000003u}) {
    const auto x = random_floats(count, 3);
    const double expected = reference::sum_of_squares({.count = count, .x = x.data()});
    Workers one(1), three(3);
    const double actual = cpu::sum_of_squares({.count = count, .x = x.data()}, one);
    EXPECT_LE(std::abs(actual - expected), (static_cast<double>(count) + 8) * 0x1p-53 * expected);
    EXPECT_EQ(actual, cpu::sum_of_squares({.count = count, .x = x.data()}, three));
  }
}

TEST(SumOfSquares, SeesInfinityAndNan) {
  Workers workers(2);
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto x = random_floats(kCount, 3);
    x[kCount - 1] = bad;
    EXPECT_FALSE(std::isfinite(cpu::sum_of_squares({.count = kCount, .x = x.data()}, workers)));
  }
}

}  // namespace
}  // namespace zeroplan::kernels
