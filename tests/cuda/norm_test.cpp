#include <cmath>

#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::finish;
using testing::gpu;
using testing::kRoundoff;
using testing::Operand;
using testing::run_twice;

class CudaNorm : public testing::EachType {};
ZP_EACH_TYPE(CudaNorm);

struct Shape {
  std::size_t rows, width, offset;
};
// A warp a row, a block a row, widths and pointers that do not suit vectors, more rows than parts.
constexpr Shape kShapes[] = {{3, 8, 0},      {5, 64, 0},   {37, 768, 0},   {33, 1024, 0}, {7, 1600, 0},
                             {5, 4096, 0},   {3, 8192, 0}, {4, 10000, 0},  {6, 77, 0},    {9, 768, 1},
                             {5000, 128, 0}, {1, 2048, 0}, {300, 2304, 0}, {2, 1, 0}};

/// Sums of n terms lose at most (log2 n + the terms a thread adds) roundings; n is a safe and simple bound for the
/// shapes here, divided by the threads that share a row.
double sum_roundings(std::size_t n) {
  return 16 + static_cast<double>(n) / 32 + 8;
}

TEST_P(CudaNorm, LayerNormForward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const bool with_bias : {true, false}) {
      std::vector<double> shifted = Operand::random(GetParam(), s.rows * s.width, 1, 2).host();
      for (double& value : shifted) value += 3;
      Operand x(GetParam(), std::move(shifted), s.offset);
      Operand weight = Operand::random(GetParam(), s.width, 2);
      Operand bias = Operand::random(GetParam(), s.width, 3);
      Operand y = Operand::output(GetParam(), s.rows * s.width, s.offset);
      Operand mean = Operand::output(DType::kFp32, s.rows);
      Operand rstd = Operand::output(DType::kFp32, s.rows);
      std::vector<float> mean_values(s.rows), rstd_values(s.rows);
      LayerNormForward args{.dtype = DType::kFp64,
                            .rows = s.rows,
                            .width = s.width,
                            .x = x.reference(),
                            .weight = weight.reference(),
                            .bias = with_bias ? bias.reference() : nullptr,
                            .y = y.reference(),
                            .mean = mean_values.data(),
                            .rstd = rstd_values.data()};
      reference::layer_norm_forward(args);
      mean.host().assign(mean_values.begin(), mean_values.end());
      rstd.host().assign(rstd_values.begin(), rstd_values.end());
      args.dtype = GetParam();
      args.x = x.device();
      args.weight = weight.device();
      args.bias = with_bias ? bias.device() : nullptr;
      args.y = y.device();
      args.mean = static_cast<float*>(mean.device());
      args.rstd = static_cast<float*>(rstd.device());
      run_twice({&y, &mean, &rstd}, [&] { enqueue(args, gpu().launch()); });
      // The mean of values near 3; the variance loses what the mean lost, squared, and its own roundings. With one
      // element the variance is 0 and rstd is 1 / sqrt(epsilon).
      const double relative = kRoundoff * sum_roundings(s.width);
      mean.expect_within([&](std::size_t) { return relative * 12; }, "mean");
      const double off = s.width == 1 ? 316 * relative * 12 : 0;
      rstd.expect_within([&](std::size_t i) { return relative * 2 * rstd.host()[i]; }, "rstd");
      y.expect_within(
          [&](std::size_t i) {
            const double w = std::abs(weight.host()[i % s.width]);
            return w * (relative * (12 * rstd.host()[i / s.width] + 30) + off) + kRoundoff * 8;
          },
          "layer norm");
    }
  }
}

TEST_P(CudaNorm, RmsNormForward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    Operand x = Operand::random(GetParam(), s.rows * s.width, 1, 2, s.offset);
    Operand weight = Operand::random(GetParam(), s.width, 2);
    Operand y = Operand::output(GetParam(), s.rows * s.width, s.offset);
    Operand rstd = Operand::output(DType::kFp32, s.rows);
    std::vector<float> rstd_values(s.rows);
    RmsNormForward args{.dtype = DType::kFp64,
                        .rows = s.rows,
                        .width = s.width,
                        .x = x.reference(),
                        .weight = weight.reference(),
                        .y = y.reference(),
                        .rstd = rstd_values.data()};
    reference::rms_norm_forward(args);
    rstd.host().assign(rstd_values.begin(), rstd_values.end());
    args.dtype = GetParam();
    args.x = x.device();
    args.weight = weight.device();
    args.y = y.device();
    args.rstd = static_cast<float*>(rstd.device());
    run_twice({&y, &rstd}, [&] { enqueue(args, gpu().launch()); });
    const double relative = kRoundoff * sum_roundings(s.width);
    rstd.expect_relative(relative, "rstd");
    y.expect_relative(relative * 2, "rms norm");
  }
}

/// Operands of a backward pass, with statistics that belong to x.
struct Backward {
  Backward(DType type, DType gradient_type, const Shape& s, bool centred)
      : d_y(Operand::random(type, s.rows * s.width, 1, 1, s.offset)),
        x(Operand::random(type, s.rows * s.width, 2, 2, s.offset)),
        weight(Operand::random(type, s.width, 3)),
        d_x(Operand::random(type, s.rows * s.width, 4, 1, s.offset)),
        d_weight(Operand::random(gradient_type, s.width, 5)),
        d_bias(Operand::random(gradient_type, s.width, 6)),
        mean(s.rows),
        rstd(s.rows) {
    for (std::size_t r = 0; r < s.rows; ++r) {
      double sum = 0;
      double square = 0;
      for (std::size_t c = 0; c < s.width; ++c) sum += x.host()[r * s.width + c] / static_cast<double>(s.width);
      if (!centred) sum = 0;
      for (std::size_t c = 0; c < s.width; ++c) {
        square += std::pow(x.host()[r * s.width + c] - sum, 2) / static_cast<double>(s.width);
      }
      mean[r] = static_cast<float>(sum);
      rstd[r] = static_cast<float>(1 / std::sqrt(square + 1e-5));
    }
  }
  /// The largest |d_y weight| and |normal| of the rows.
  double largest(const Shape& s) const {
    double g = 0;
    double n = 0;
    for (std::size_t i = 0; i < s.rows * s.width; ++i) {
      g = std::max(g, std::abs(d_y.host()[i] * weight.host()[i % s.width]));
      n = std::max(n, std::abs((x.host()[i] - mean[i / s.width]) * rstd[i / s.width]));
    }
    return g * (2 + n * n);
  }
  Operand d_y, x, weight, d_x, d_weight, d_bias;
  std::vector<float> mean, rstd;
};

template <class Enqueue, class Reference>
void expect_backward(DType type, const Shape& s, bool centred, bool accumulate, const Enqueue& run,
                     const Reference& reference) {
  for (const DType gradient_type : {type, DType::kFp32}) {
    Backward b(type, gradient_type, s, centred);
    const testing::DeviceArray<float> mean(b.mean);
    const testing::DeviceArray<float> rstd(b.rstd);
    if (!accumulate) {
      b.d_x.poison();
      b.d_weight.poison();
      b.d_bias.poison();
    }
    run(b, gradient_type, mean.get(), rstd.get());
    reference(b);
    double largest_rstd = 0;
    for (const float value : b.rstd) largest_rstd = std::max(largest_rstd, static_cast<double>(value));
    const double terms = b.largest(s);
    const double relative = kRoundoff * sum_roundings(s.width);
    b.d_x.expect_within([&](std::size_t) { return relative * largest_rstd * terms + kRoundoff * 8; }, "d_x");
    const double rows = sum_roundings(s.rows) * static_cast<double>(s.rows) * kRoundoff;
    b.d_weight.expect_within([&](std::size_t) { return rows * 25; }, "d_weight");
    if (centred) b.d_bias.expect_within([&](std::size_t) { return rows * 5; }, "d_bias");
  }
}

TEST_P(CudaNorm, LayerNormBackward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const bool accumulate : {false, true}) {
      const auto args_of = [&](auto& b) {
        return LayerNormBackward{.dtype = DType::kFp64,
                                 .gradient_dtype = DType::kFp64,
                                 .rows = s.rows,
                                 .width = s.width,
                                 .d_y = b.d_y.reference(),
                                 .x = b.x.reference(),
                                 .weight = b.weight.reference(),
                                 .mean = b.mean.data(),
                                 .rstd = b.rstd.data(),
                                 .d_x = b.d_x.reference(),
                                 .d_weight = b.d_weight.reference(),
                                 .d_bias = b.d_bias.reference(),
                                 .accumulate = accumulate,
                                 .accumulate_gradient = accumulate};
      };
      expect_backward(
          GetParam(), s, true, accumulate,
          [&](Backward& b, DType gradient_type, const float* mean, const float* rstd) {
            LayerNormBackward args = args_of(b);
            args.dtype = GetParam();
            args.gradient_dtype = gradient_type;
            args.d_y = b.d_y.device();
            args.x = b.x.device();
            args.weight = b.weight.device();
            args.mean = mean;
            args.rstd = rstd;
            args.d_x = b.d_x.device();
            args.d_weight = b.d_weight.device();
            args.d_bias = b.d_bias.device();
            run_twice({&b.d_x, &b.d_weight, &b.d_bias}, [&] { enqueue(args, gpu().launch()); });
          },
          [&](Backward& b) { reference::layer_norm_backward(args_of(b)); });
    }
  }
}

TEST_P(CudaNorm, RmsNormBackward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const bool accumulate : {false, true}) {
      const auto args_of = [&](auto& b) {
        return RmsNormBackward{.dtype = DType::kFp64,
                               .gradient_dtype = DType::kFp64,
                               .rows = s.rows,
                               .width = s.width,
                               .d_y = b.d_y.reference(),
                               .x = b.x.reference(),
                               .weight = b.weight.reference(),
                               .rstd = b.rstd.data(),
                               .d_x = b.d_x.reference(),
                               .d_weight = b.d_weight.reference(),
                               .accumulate = accumulate,
                               .accumulate_gradient = accumulate};
      };
      expect_backward(
          GetParam(), s, false, accumulate,
          [&](Backward& b, DType gradient_type, const float*, const float* rstd) {
            RmsNormBackward args = args_of(b);
            args.dtype = GetParam();
            args.gradient_dtype = gradient_type;
            args.d_y = b.d_y.device();
            args.x = b.x.device();
            args.weight = b.weight.device();
            args.rstd = rstd;
            args.d_x = b.d_x.device();
            args.d_weight = b.d_weight.device();
            run_twice({&b.d_x, &b.d_weight}, [&] { enqueue(args, gpu().launch()); });
          },
          [&](Backward& b) { reference::rms_norm_backward(args_of(b)); });
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
