#include "kernels/linear.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

class Linear : public ::testing::TestWithParam<WeightLayout> {
 protected:
  static constexpr std::size_t kTokens = 131;
  static constexpr std::size_t kIn = 45;
  static constexpr std::size_t kOut = 70;
  std::vector<float> x_ = random_floats(kTokens * kIn, 1);
  std::vector<float> weight_ = random_floats(kIn * kOut, 2);
  std::vector<float> bias_ = random_floats(kOut, 3);
  std::vector<float> d_y_ = random_floats(kTokens * kOut, 4);
  std::vector<double> wide_x_ = widen(x_);
  std::vector<double> wide_weight_ = widen(weight_);
  std::vector<double> wide_bias_ = widen(bias_);
  std::vector<double> wide_d_y_ = widen(d_y_);
};

// A sum of n products of normal numbers, each below 5: n steps, each off by a roundoff of at most 25 n.
double bound(std::size_t n) {
  return kRoundoff * 25 * static_cast<double>(n) * (static_cast<double>(n) + 8);
}

TEST_P(Linear, ForwardMatchesReference) {
  std::vector<double> expected(kTokens * kOut);
  reference::linear_forward({.dtype = DType::kFp64,
                             .layout = GetParam(),
                             .tokens = kTokens,
                             .in = kIn,
                             .out = kOut,
                             .x = wide_x_.data(),
                             .weight = wide_weight_.data(),
                             .bias = wide_bias_.data(),
                             .y = expected.data()});
  const auto actual = same_for_all_workers([&](Workers& workers) {
    Workspace workspace(linear_forward_workspace_bytes(kTokens, kIn, kOut, DType::kFp32).count());
    std::vector<float> y(kTokens * kOut);
    cpu::linear_forward({.layout = GetParam(),
                         .tokens = kTokens,
                         .in = kIn,
                         .out = kOut,
                         .x = x_.data(),
                         .weight = weight_.data(),
                         .bias = bias_.data(),
                         .y = y.data(),
                         .workspace = workspace.get()},
                        workers);
    EXPECT_TRUE(workspace.exactly_written());
    return y;
  });
  expect_within(actual, expected, [](std::size_t) { return bound(kIn); });
}

TEST_P(Linear, BackwardInputMatchesReference) {
  std::vector<double> expected(kTokens * kIn, 1.0);
  reference::linear_backward_input({.dtype = DType::kFp64,
                                    .layout = GetParam(),
                                    .tokens = kTokens,
                                    .in = kIn,
                                    .out = kOut,
                                    .d_y = wide_d_y_.data(),
                                    .weight = wide_weight_.data(),
                                    .d_x = expected.data(),
                                    .accumulate = true});
  const auto actual = same_for_all_workers([&](Workers& workers) {
    Workspace workspace(linear_backward_input_workspace_bytes(kTokens, kIn, kOut, DType::kFp32).count());
    std::vector<float> d_x(kTokens * kIn, 1.0f);
    cpu::linear_backward_input({.layout = GetParam(),
                                .tokens = kTokens,
                                .in = kIn,
                                .out = kOut,
                                .d_y = d_y_.data(),
                                .weight = weight_.data(),
                                .d_x = d_x.data(),
                                .accumulate = true,
                                .workspace = workspace.get()},
                               workers);
    EXPECT_TRUE(workspace.exactly_written());
    return d_x;
  });
  expect_within(actual, expected, [](std::size_t) { return bound(kOut); });
}

TEST_P(Linear, BackwardWeightMatchesReference) {
  for (bool accumulate : {false, true}) {
    std::vector<double> expected(kIn * kOut + kOut, 2.0);
    reference::linear_backward_weight({.dtype = DType::kFp64,
                                       .gradient_dtype = DType::kFp64,
                                       .layout = GetParam(),
                                       .tokens = kTokens,
                                       .in = kIn,
                                       .out = kOut,
                                       .d_y = wide_d_y_.data(),
                                       .x = wide_x_.data(),
                                       .d_weight = expected.data(),
                                       .d_bias = expected.data() + kIn * kOut,
                                       .accumulate = accumulate,
                                       .accumulate_bias = accumulate});
    const auto actual = same_for_all_workers([&](Workers& workers) {
      Workspace workspace(linear_backward_weight_workspace_bytes(kTokens, kIn, kOut, GetParam(), DType::kFp32).count());
      std::vector<float> result(kIn * kOut + kOut, 2.0f);
      cpu::linear_backward_weight({.layout = GetParam(),
                                   .tokens = kTokens,
                                   .in = kIn,
                                   .out = kOut,
                                   .d_y = d_y_.data(),
                                   .x = x_.data(),
                                   .d_weight = result.data(),
                                   .d_bias = result.data() + kIn * kOut,
                                   .accumulate = accumulate,
                                   .accumulate_bias = accumulate,
                                   .workspace = workspace.get()},
                                  workers);
      EXPECT_TRUE(workspace.exactly_written());
      return result;
    });
    expect_within(actual, expected, [](std::size_t) { return bound(kTokens); });
  }
}

TEST_P(Linear, GradientMatchesFiniteDifferences) {
  constexpr std::size_t kT = 3, kI = 4, kO = 5;
  auto x = widen(random_floats(kT * kI, 5));
  auto weight = widen(random_floats(kI * kO, 6));
  auto bias = widen(random_floats(kO, 7));
  const auto d_y = widen(random_floats(kT * kO, 8));
  const auto loss = [&] {
    std::vector<double> y(kT * kO);
    reference::linear_forward({.dtype = DType::kFp64,
                               .layout = GetParam(),
                               .tokens = kT,
                               .in = kI,
                               .out = kO,
                               .x = x.data(),
                               .weight = weight.data(),
                               .bias = bias.data(),
                               .y = y.data()});
    return dot(y, d_y);
  };
  std::vector<double> d_x(kT * kI), d_weight(kI * kO), d_bias(kO);
  reference::linear_backward_input({.dtype = DType::kFp64,
                                    .layout = GetParam(),
                                    .tokens = kT,
                                    .in = kI,
                                    .out = kO,
                                    .d_y = d_y.data(),
                                    .weight = weight.data(),
                                    .d_x = d_x.data()});
  reference::linear_backward_weight({.dtype = DType::kFp64,
                                     .gradient_dtype = DType::kFp64,
                                     .layout = GetParam(),
                                     .tokens = kT,
                                     .in = kI,
                                     .out = kO,
                                     .d_y = d_y.data(),
                                     .x = x.data(),
                                     .d_weight = d_weight.data(),
                                     .d_bias = d_bias.data()});
  expect_gradient(x, d_x, loss, 1);
  expect_gradient(weight, d_weight, loss, 1);
  expect_gradient(bias, d_bias, loss, 1);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Linear, ::testing::Values(WeightLayout::kOutIn, WeightLayout::kInOut));

}  // namespace
}  // namespace zeroplan::kernels
