#include <gtest/gtest.h>

#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

struct Extents {
  std::size_t rows, width;
};

class Norm : public ::testing::TestWithParam<Extents> {
 protected:
  std::size_t rows_ = GetParam().rows;
  std::size_t width_ = GetParam().width;
  std::vector<float> x_ = random_floats(rows_ * width_, 1);
  std::vector<float> weight_ = random_floats(width_, 2);
  std::vector<float> bias_ = random_floats(width_, 3);
  std::vector<float> d_y_ = random_floats(rows_ * width_, 4);
  std::vector<double> wide_x_ = widen(x_), wide_weight_ = widen(weight_), wide_bias_ = widen(bias_),
                      wide_d_y_ = widen(d_y_);

  /// Sums along a row pass through at most width + 8 roundings, a handful follow; every factor is below 5 except rstd,
  /// which `rstd` bounds, and a product of four factors (weight, d_y and two normalised values) below 5^4.
  double row_bound(double rstd) const { return kRoundoff * (static_cast<double>(width_) + 24) * 625 * (1 + rstd); }
  /// The same down the columns.
  double column_bound(double rstd) const {
    return kRoundoff * static_cast<double>(rows_ + width_ + 24) * static_cast<double>(rows_) * 125 * (1 + rstd);
  }
};

double largest(const std::vector<float>& values) {
  double result = 0;
  for (float value : values) result = std::max<double>(result, std::abs(value));
  return result;
}

TEST_P(Norm, LayerNormMatchesReference) {
  std::vector<double> y(rows_ * width_);
  std::vector<float> mean(rows_), rstd(rows_);
  reference::layer_norm_forward({.dtype = DType::kFp64,
                                 .rows = rows_,
                                 .width = width_,
                                 .x = wide_x_.data(),
                                 .weight = wide_weight_.data(),
                                 .bias = wide_bias_.data(),
                                 .y = y.data(),
                                 .mean = mean.data(),
                                 .rstd = rstd.data()});
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> result(rows_ * width_ + 2 * rows_);
    float* statistics = result.data() + rows_ * width_;
    cpu::layer_norm_forward({.rows = rows_,
                             .width = width_,
                             .x = x_.data(),
                             .weight = weight_.data(),
                             .bias = bias_.data(),
                             .y = result.data(),
                             .mean = statistics,
                             .rstd = statistics + rows_},
                            workers);
    return result;
  });
  y.insert(y.end(), mean.begin(), mean.end());
  y.insert(y.end(), rstd.begin(), rstd.end());
  const double spread = largest(rstd);
  expect_within(actual, y, [&](std::size_t) { return row_bound(spread * spread); });
}

TEST_P(Norm, LayerNormBackwardMatchesReference) {
  std::vector<float> mean(rows_), rstd(rows_);
  std::vector<double> y(rows_ * width_);
  reference::layer_norm_forward({.dtype = DType::kFp64,
                                 .rows = rows_,
                                 .width = width_,
                                 .x = wide_x_.data(),
                                 .weight = wide_weight_.data(),
                                 .y = y.data(),
                                 .mean = mean.data(),
                                 .rstd = rstd.data()});
  for (bool accumulate : {false, true}) {
    std::vector<double> d_x(rows_ * width_, 1.0), d_weight(width_, 1.0), d_bias(width_, 1.0);
    reference::layer_norm_backward({.dtype = DType::kFp64,
                                    .gradient_dtype = DType::kFp64,
                                    .rows = rows_,
                                    .width = width_,
                                    .d_y = wide_d_y_.data(),
                                    .x = wide_x_.data(),
                                    .weight = wide_weight_.data(),
                                    .mean = mean.data(),
                                    .rstd = rstd.data(),
                                    .d_x = d_x.data(),
                                    .d_weight = d_weight.data(),
                                    .d_bias = d_bias.data(),
                                    .accumulate = accumulate,
                                    .accumulate_gradient = accumulate});
    d_weight.insert(d_weight.end(), d_bias.begin(), d_bias.end());
    std::vector<float> actual_d_x;
    const auto gradients = same_for_all_workers([&](Workers& workers) {
      std::vector<float> result(2 * width_, 1.0f);
      std::vector<float> rows_result(rows_ * width_, 1.0f);
      cpu::layer_norm_backward({.rows = rows_,
                                .width = width_,
                                .d_y = d_y_.data(),
                                .x = x_.data(),
                                .weight = weight_.data(),
                                .mean = mean.data(),
                                .rstd = rstd.data(),
                                .d_x = rows_result.data(),
                                .d_weight = result.data(),
                                .d_bias = result.data() + width_,
                                .accumulate = accumulate,
                                .accumulate_gradient = accumulate},
                               workers);
      EXPECT_TRUE(actual_d_x.empty() || same_bits(actual_d_x, rows_result));
      actual_d_x = rows_result;
      return result;
    });
    const double spread = largest(rstd);
    expect_within(actual_d_x, d_x, [&](std::size_t) { return row_bound(spread * spread); });
    expect_within(gradients, d_weight, [&](std::size_t) { return column_bound(spread); });
  }
}

TEST_P(Norm, RmsNormMatchesReference) {
  std::vector<double> y(rows_ * width_);
  std::vector<float> rstd(rows_);
  reference::rms_norm_forward({.dtype = DType::kFp64,
                               .rows = rows_,
                               .width = width_,
                               .x = wide_x_.data(),
                               .weight = wide_weight_.data(),
                               .y = y.data(),
                               .rstd = rstd.data()});
  const auto actual = same_for_all_workers([&](Workers& workers) {
    std::vector<float> result(rows_ * width_ + rows_);
    cpu::rms_norm_forward({.rows = rows_,
                           .width = width_,
                           .x = x_.data(),
                           .weight = weight_.data(),
                           .y = result.data(),
                           .rstd = result.data() + rows_ * width_},
                          workers);
    return result;
  });
  y.insert(y.end(), rstd.begin(), rstd.end());
  const double spread = largest(rstd);
  expect_within(actual, y, [&](std::size_t) { return row_bound(spread); });
  for (bool accumulate : {false, true}) {
    std::vector<double> d_x(rows_ * width_, 1.0), d_weight(width_, 1.0);
    reference::rms_norm_backward({.dtype = DType::kFp64,
                                  .gradient_dtype = DType::kFp64,
                                  .rows = rows_,
                                  .width = width_,
                                  .d_y = wide_d_y_.data(),
                                  .x = wide_x_.data(),
                                  .weight = wide_weight_.data(),
                                  .rstd = rstd.data(),
                                  .d_x = d_x.data(),
                                  .d_weight = d_weight.data(),
                                  .accumulate = accumulate,
                                  .accumulate_gradient = accumulate});
    const auto gradients = same_for_all_workers([&](Workers& workers) {
      std::vector<float> result(rows_ * width_ + width_, 1.0f);
      cpu::rms_norm_backward({.rows = rows_,
                              .width = width_,
                              .d_y = d_y_.data(),
                              .x = x_.data(),
                              .weight = weight_.data(),
                              .rstd = rstd.data(),
                              .d_x = result.data(),
                              .d_weight = result.data() + rows_ * width_,
                              .accumulate = accumulate,
                              .accumulate_gradient = accumulate},
                             workers);
      return result;
    });
    d_x.insert(d_x.end(), d_weight.begin(), d_weight.end());
    expect_within(gradients, d_x, [&](std::size_t i) {
      return i < rows_ * width_ ? row_bound(spread * spread) : column_bound(spread);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Extents, Norm,
                         ::testing::Values(Extents{1, 1}, Extents{3, 7}, Extents{130, 33}, Extents{17, 128},
                                           Extents{65, 100}, Extents{5, 1000}));

TEST(LayerNorm, GradientMatchesFiniteDifferences) {
  constexpr std::size_t kRows = 3, kWidth = 6;
  auto x = widen(random_floats(kRows * kWidth, 1));
  auto weight = widen(random_floats(kWidth, 2));
  auto bias = widen(random_floats(kWidth, 3));
  const auto d_y = widen(random_floats(kRows * kWidth, 4));
  std::vector<float> mean(kRows), rstd(kRows);
  const auto loss = [&] {
    std::vector<double> y(kRows * kWidth);
    reference::layer_norm_forward({.dtype = DType::kFp64,
                                   .rows = kRows,
                                   .width = kWidth,
                                   .x = x.data(),
                                   .weight = weight.data(),
                                   .bias = bias.data(),
                                   .y = y.data(),
                                   .mean = mean.data(),
                                   .rstd = rstd.data()});
    return dot(y, d_y);
  };
  loss();
  std::vector<double> d_x(kRows * kWidth), d_weight(kWidth), d_bias(kWidth);
  reference::layer_norm_backward({.dtype = DType::kFp64,
                                  .gradient_dtype = DType::kFp64,
                                  .rows = kRows,
                                  .width = kWidth,
                                  .d_y = d_y.data(),
                                  .x = x.data(),
                                  .weight = weight.data(),
                                  .mean = mean.data(),
                                  .rstd = rstd.data(),
                                  .d_x = d_x.data(),
                                  .d_weight = d_weight.data(),
                                  .d_bias = d_bias.data()});
  expect_gradient(x, d_x, loss, 10);
  expect_gradient(weight, d_weight, loss, 10);
  expect_gradient(bias, d_bias, loss, 10);
}

TEST(RmsNorm, GradientMatchesFiniteDifferences) {
  constexpr std::size_t kRows = 3, kWidth = 6;
  auto x = widen(random_floats(kRows * kWidth, 1));
  auto weight = widen(random_floats(kWidth, 2));
  const auto d_y = widen(random_floats(kRows * kWidth, 4));
  std::vector<float> rstd(kRows);
  const auto loss = [&] {
    std::vector<double> y(kRows * kWidth);
    reference::rms_norm_forward({.dtype = DType::kFp64,
                                 .rows = kRows,
                                 .width = kWidth,
                                 .x = x.data(),
                                 .weight = weight.data(),
                                 .y = y.data(),
                                 .rstd = rstd.data()});
    return dot(y, d_y);
  };
  loss();
  std::vector<double> d_x(kRows * kWidth), d_weight(kWidth);
  reference::rms_norm_backward({.dtype = DType::kFp64,
                                .gradient_dtype = DType::kFp64,
                                .rows = kRows,
                                .width = kWidth,
                                .d_y = d_y.data(),
                                .x = x.data(),
                                .weight = weight.data(),
                                .rstd = rstd.data(),
                                .d_x = d_x.data(),
                                .d_weight = d_weight.data()});
  expect_gradient(x, d_x, loss, 10);
  expect_gradient(weight, d_weight, loss, 10);
}

TEST(LayerNorm, NormalisesARowInPlace) {
  std::vector<float> row = {1, 2, 3, 4};
  const std::vector<float> weight(4, 1.0f);
  float mean = 0, rstd = 0;
  Workers workers(1);
  cpu::layer_norm_forward({.rows = 1,
                           .width = 4,
                           .epsilon = 0,
                           .x = row.data(),
                           .weight = weight.data(),
                           .y = row.data(),
                           .mean = &mean,
                           .rstd = &rstd},
                          workers);
  EXPECT_EQ(mean, 2.5f);
  EXPECT_FLOAT_EQ(rstd, 1 / std::sqrt(1.25f));
  EXPECT_FLOAT_EQ(row[3], 1.5f / std::sqrt(1.25f));
}

}  // namespace
}  // namespace zeroplan::kernels
