#include <cmath>

#include "kernels/cuda/matrix_products.h"
#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::gpu;
using testing::kRoundoff;
using testing::Operand;
using testing::run_twice;

/// cuBLASLt may round the product to the result's type before it adds: a unit of the product, which is the difference
/// of the result and what was there (below 5).
double added_error(DType type, bool accumulate, double result) {
  return accumulate && type != DType::kFp32 ? testing::roundoff(type) * (std::abs(result) + 5) : 0;
}

class CudaLinear : public testing::EachType {};
ZP_EACH_TYPE(CudaLinear);

struct Shape {
  std::size_t tokens, in, out, pad;  ///< pad: elements between rows of x and y
};
constexpr Shape kShapes[] = {{1, 1, 1, 0},      {3, 5, 7, 0},      {64, 48, 96, 0},  {65, 33, 129, 0},
                             {128, 64, 256, 8}, {100, 72, 40, 3},  {600, 32, 24, 0}, {16, 512, 80, 0},
                             {24, 48, 1029, 3}, {24, 1030, 40, 2}, {1031, 40, 48, 0}};

/// Extents that are cut in two: parts of a sum are added as with `accumulate`.
bool is_cut(std::size_t extent) {
  return extent > 1024 && extent % 8 != 0;
}

/// A sum of k products of N(0, 1) values: each rounded, in any order; the partial sums stay below 6 sqrt(k).
double product_error(std::size_t k) {
  return kRoundoff * static_cast<double>(k + 2) * 6 * std::sqrt(static_cast<double>(k));
}

TEST_P(CudaLinear, Forward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const WeightLayout layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
      for (const bool accumulate : {false, true}) {
        for (const bool with_bias : {false, true}) {
          Operand x = Operand::random(GetParam(), s.tokens * (s.in + s.pad), 1);
          Operand weight = Operand::random(GetParam(), s.in * s.out, 2);
          Operand bias = Operand::random(GetParam(), s.out, 3);
          Operand y = Operand::random(GetParam(), s.tokens * (s.out + s.pad), 4);
          LinearForward args{.dtype = DType::kFp64,
                             .layout = layout,
                             .tokens = s.tokens,
                             .in = s.in,
                             .out = s.out,
                             .x = x.reference(),
                             .x_stride = s.pad == 0 ? 0 : s.in + s.pad,
                             .weight = weight.reference(),
                             .bias = with_bias ? bias.reference() : nullptr,
                             .y = y.reference(),
                             .y_stride = s.pad == 0 ? 0 : s.out + s.pad,
                             .accumulate = accumulate};
          reference::linear_forward(args);
          args.dtype = GetParam();
          args.x = x.device();
          args.weight = weight.device();
          args.bias = with_bias ? bias.device() : nullptr;
          args.y = y.device();
          prepare(args, gpu().context);
          run_twice({&y}, [&] { enqueue(args, gpu().launch()); });
          y.expect_within(
              [&](std::size_t i) {
                return product_error(s.in + 2) + added_error(GetParam(), accumulate || is_cut(s.in), y.host()[i]);
              },
              "linear forward");
        }
      }
    }
  }
}

TEST_P(CudaLinear, BackwardInput) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const WeightLayout layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
      for (const bool accumulate : {false, true}) {
        Operand d_y = Operand::random(GetParam(), s.tokens * (s.out + s.pad), 1);
        Operand weight = Operand::random(GetParam(), s.in * s.out, 2);
        Operand d_x = Operand::random(GetParam(), s.tokens * (s.in + s.pad), 4);
        LinearBackwardInput args{.dtype = DType::kFp64,
                                 .layout = layout,
                                 .tokens = s.tokens,
                                 .in = s.in,
                                 .out = s.out,
                                 .d_y = d_y.reference(),
                                 .d_y_stride = s.out + s.pad,
                                 .weight = weight.reference(),
                                 .d_x = d_x.reference(),
                                 .d_x_stride = s.in + s.pad,
                                 .accumulate = accumulate};
        reference::linear_backward_input(args);
        args.dtype = GetParam();
        args.d_y = d_y.device();
        args.weight = weight.device();
        args.d_x = d_x.device();
        run_twice({&d_x}, [&] { enqueue(args, gpu().launch()); });
        d_x.expect_within(
            [&](std::size_t i) {
              return product_error(s.out + 1) + added_error(GetParam(), accumulate || is_cut(s.out), d_x.host()[i]);
            },
            "linear backward input");
      }
    }
  }
}

TEST_P(CudaLinear, BackwardWeight) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const WeightLayout layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
      for (const bool accumulate : {false, true}) {
        for (const DType gradient_type : {GetParam(), DType::kFp32}) {
          Operand d_y = Operand::random(GetParam(), s.tokens * (s.out + s.pad), 1);
          Operand x = Operand::random(GetParam(), s.tokens * (s.in + s.pad), 2);
          Operand d_weight = Operand::random(gradient_type, s.in * s.out, 3);
          Operand d_bias = Operand::random(gradient_type, s.out, 4);
          if (!accumulate) {
            d_weight.poison();
            d_bias.poison();
          }
          LinearBackwardWeight args{.dtype = DType::kFp64,
                                    .gradient_dtype = DType::kFp64,
                                    .layout = layout,
                                    .tokens = s.tokens,
                                    .in = s.in,
                                    .out = s.out,
                                    .d_y = d_y.reference(),
                                    .d_y_stride = s.out + s.pad,
                                    .x = x.reference(),
                                    .x_stride = s.in + s.pad,
                                    .d_weight = d_weight.reference(),
                                    .d_bias = d_bias.reference(),
                                    .accumulate = accumulate,
                                    .accumulate_bias = accumulate};
          reference::linear_backward_weight(args);
          args.dtype = GetParam();
          args.gradient_dtype = gradient_type;
          args.d_y = d_y.device();
          args.x = x.device();
          args.d_weight = d_weight.device();
          args.d_bias = d_bias.device();
          run_twice({&d_weight, &d_bias}, [&] { enqueue(args, gpu().launch()); });
          d_weight.expect_within(
              [&](std::size_t i) {
                return product_error(s.tokens + 1) +
                       added_error(gradient_type, accumulate || is_cut(s.tokens), d_weight.host()[i]);
              },
              "d_weight");
          d_bias.expect_within([&](std::size_t) { return product_error(s.tokens + 1); }, "d_bias");
        }
      }
    }
  }
}

/// The kernel for shapes that the library has no algorithm for.
TEST_P(CudaLinear, PlainProduct) {
  ZP_NEEDS_DEVICE();
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      constexpr std::size_t kM = 45, kN = 70, kK = 83;
      Operand a = Operand::random(GetParam(), kM * kK, 1);
      Operand b = Operand::random(GetParam(), kK * kN, 2);
      Operand bias = Operand::random(GetParam(), kN, 3);
      Operand c = Operand::random(DType::kFp32, kM * kN, 4);
      const std::size_t a_stride = transpose_a ? kM : kK;
      const std::size_t b_stride = transpose_b ? kK : kN;
      reference::gemm({DType::kFp64, DType::kFp64, kM, kN, kK, transpose_a, transpose_b, a.reference(), a_stride,
                       b.reference(), b_stride, c.reference(), kN, bias.reference(), true});
      const MatrixProduct product{GetParam(),  DType::kFp32,  kM,       kN,         kK,       transpose_a,
                                  transpose_b, a.device(),    a_stride, b.device(), b_stride, c.device(),
                                  kN,          bias.device(), true};
      run_twice({&c}, [&] { enqueue_plain_product(product, gpu().launch()); });
      c.expect_within([&](std::size_t) { return product_error(kK + 2); }, "plain product");
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
