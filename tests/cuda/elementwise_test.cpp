#include <cmath>

#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::finish;
using testing::gpu;
using testing::kRoundoff;
using testing::Operand;
using testing::run_twice;

class CudaElementwise : public testing::EachType {};
ZP_EACH_TYPE(CudaElementwise);

/// Vectors, tails and unaligned pointers.
struct Extent {
  std::size_t count, offset;
};
constexpr Extent kExtents[] = {{1, 0}, {7, 0}, {8, 0}, {4099, 0}, {4099, 1}, {65536, 0}};

TEST_P(CudaElementwise, AddScaleFillCopy) {
  ZP_NEEDS_DEVICE();
  for (const auto [n, offset] : kExtents) {
    Operand a = Operand::random(GetParam(), n, 1, 1, offset);
    Operand b = Operand::random(GetParam(), n, 2, 1, offset);
    Operand out = Operand::output(GetParam(), n, offset);
    reference::add({DType::kFp64, n, a.reference(), b.reference(), out.reference()});
    run_twice({&out}, [&] { enqueue(Add{GetParam(), n, a.device(), b.device(), out.device()}, gpu().launch()); });
    out.expect_relative(kRoundoff, "add");

    reference::scale({DType::kFp64, n, b.reference(), 0.3f});
    enqueue(Scale{GetParam(), n, b.device(), 0.3f}, gpu().launch());
    finish();
    b.expect_relative(kRoundoff, "scale");

    reference::fill({DType::kFp64, n, a.reference(), 0.7f});
    enqueue(Fill{GetParam(), n, a.device(), 0.7f}, gpu().launch());
    finish();
    a.expect_relative(0, "fill");

    for (const DType to : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      Operand from = Operand::random(GetParam(), n, 3, 1, offset);
      Operand copy = Operand::output(to, n);
      reference::copy({DType::kFp64, DType::kFp64, n, from.reference(), copy.reference()});
      enqueue(Copy{GetParam(), to, n, from.device(), copy.device()}, gpu().launch());
      finish();
      copy.expect_relative(0, "copy");
    }
  }
}

TEST_P(CudaElementwise, OrderedSumAddsInOrder) {
  ZP_NEEDS_DEVICE();
  for (const auto [n, offset] : kExtents) {
    std::vector<Operand> inputs;
    for (std::uint32_t r = 0; r < 5; ++r) inputs.push_back(Operand::random(GetParam(), n, r, 1, offset));
    OrderedSum args{.dtype = GetParam(), .count = n, .input_count = inputs.size(), .out = inputs[2].device()};
    std::vector<double> sum(n, 0);
    std::vector<double> size(n, 0);
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      args.inputs[r] = inputs[r].device();
      for (std::size_t i = 0; i < n; ++i) {
        sum[i] += inputs[r].host()[i];
        size[i] += std::abs(inputs[r].host()[i]);
      }
    }
    inputs[2].host() = sum;
    enqueue_ordered_sum(args, gpu().launch());
    finish();
    inputs[2].expect_within([&](std::size_t i) { return 5 * kRoundoff * size[i]; }, "ordered sum");
  }
}

// The polynomial takes 4 roundings, which the exponential's argument of up to 2 |u| magnifies; exp, sum and quotient
// cost 2 units each, the hardware's exp 2^-22 x |argument| besides.
double activation_error(double argument) {
  return kRoundoff * (16 + 12 * std::abs(argument));
}

TEST_P(CudaElementwise, Gelu) {
  ZP_NEEDS_DEVICE();
  for (const auto [n, offset] : kExtents) {
    Operand x = Operand::random(GetParam(), n, 1, 3, offset);
    Operand d_y = Operand::random(GetParam(), n, 2, 1, offset);
    Operand y = Operand::output(GetParam(), n, offset);
    Operand d_x = Operand::output(GetParam(), n, offset);
    reference::gelu_forward({DType::kFp64, n, x.reference(), y.reference()});
    reference::gelu_backward({DType::kFp64, n, d_y.reference(), x.reference(), d_x.reference()});
    run_twice({&y, &d_x}, [&] {
      enqueue(GeluForward{GetParam(), n, x.device(), y.device()}, gpu().launch());
      enqueue(GeluBackward{GetParam(), n, d_y.device(), x.device(), d_x.device()}, gpu().launch());
    });
    const auto twice_inner = [&](std::size_t i) {
      const double v = x.host()[i];
      return 1.6 * (std::abs(v) + 0.045 * std::abs(v * v * v));
    };
    // The reference's 1 + tanh is off by a unit of double.
    y.expect_within(
        [&](std::size_t i) {
          return activation_error(twice_inner(i)) * std::abs(y.host()[i]) + 0x1p-52 * std::abs(x.host()[i]);
        },
        "gelu");
    // s and x s (1 - s) du/dx are each right to that; their sum may cancel. The reference's 1 - tanh^2 is off by a unit
    // of double.
    d_x.expect_within(
        [&](std::size_t i) {
          const double t = twice_inner(i);
          const double size = std::abs(d_y.host()[i]) * (1 + t * 3) * (x.host()[i] < 0 ? std::exp(-t) : 1);
          return activation_error(t) * size + 0x1p-52 * std::abs(d_y.host()[i]) * (1 + 3 * t);
        },
        "gelu backward");
  }
}

TEST_P(CudaElementwise, GeluOfLargeValues) {
  ZP_NEEDS_DEVICE();
  Operand x(GetParam(), {-1e4, -60, -20, 0, 20, 60, 1e4});
  Operand d_y(GetParam(), std::vector<double>(7, 1));
  Operand d_x = Operand::output(GetParam(), 7);
  Operand y = Operand::output(GetParam(), 7);
  enqueue(GeluForward{GetParam(), 7, x.device(), y.device()}, gpu().launch());
  enqueue(GeluBackward{GetParam(), 7, d_y.device(), x.device(), d_x.device()}, gpu().launch());
  finish();
  const std::vector<double> forward = y.download();
  const std::vector<double> slope = d_x.download();
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(forward[i], x.host()[i] > 0 ? x.host()[i] : 0) << x.host()[i];
    EXPECT_EQ(slope[i], i < 3 ? 0 : i == 3 ? 0.5 : 1) << x.host()[i];
  }
}

TEST_P(CudaElementwise, GatedSilu) {
  ZP_NEEDS_DEVICE();
  for (const auto [n, offset] : kExtents) {
    Operand gate = Operand::random(GetParam(), n, 1, 3, offset);
    Operand up = Operand::random(GetParam(), n, 2, 1, offset);
    Operand d_y = Operand::random(GetParam(), n, 3, 1, offset);
    Operand y = Operand::output(GetParam(), n, offset);
    Operand d_gate = Operand::output(GetParam(), n, offset);
    Operand d_up = Operand::output(GetParam(), n, offset);
    reference::gated_silu_forward({DType::kFp64, n, gate.reference(), up.reference(), y.reference()});
    reference::gated_silu_backward(
        {DType::kFp64, n, d_y.reference(), gate.reference(), up.reference(), d_gate.reference(), d_up.reference()});
    run_twice({&y, &d_gate, &d_up}, [&] {
      enqueue(GatedSiluForward{GetParam(), n, gate.device(), up.device(), y.device()}, gpu().launch());
      enqueue(
          GatedSiluBackward{GetParam(), n, d_y.device(), gate.device(), up.device(), d_gate.device(), d_up.device()},
          gpu().launch());
    });
    const auto relative = [&](std::size_t i) { return activation_error(gate.host()[i]); };
    y.expect_within([&](std::size_t i) { return relative(i) * std::abs(y.host()[i]); }, "gated silu");
    d_up.expect_within([&](std::size_t i) { return relative(i) * std::abs(d_up.host()[i]); }, "d_up");
    // 1 + gate (1 - s) may cancel.
    d_gate.expect_within(
        [&](std::size_t i) {
          return 2 * relative(i) * std::abs(d_y.host()[i] * up.host()[i]) * (1 + std::abs(gate.host()[i]));
        },
        "d_gate");
  }
}

TEST_P(CudaElementwise, RotaryAndItsInverse) {
  ZP_NEEDS_DEVICE();
  struct Shape {
    std::size_t tokens, heads, head_size, length, stride;
  };
  for (const Shape s :
       {Shape{6, 3, 64, 3, 0}, Shape{8, 2, 128, 8, 512}, Shape{5, 1, 6, 5, 0}, Shape{4, 2, 32, 2, 100}}) {
    const std::size_t stride = s.stride == 0 ? s.heads * s.head_size : s.stride;
    Operand x = Operand::random(GetParam(), s.tokens * stride, 1);
    const std::vector<double> before = x.host();
    std::vector<float> angles(s.length * s.head_size);
    fill_rotary_table({.positions = s.length, .head_size = s.head_size, .table = angles.data()});
    const testing::DeviceArray<float> table(angles);
    for (const bool inverse : {false, true}) {
      x.host() = before;
      x.upload(before);
      Rotary args{.dtype = DType::kFp64,
                  .tokens = s.tokens,
                  .heads = s.heads,
                  .head_size = s.head_size,
                  .sequence_length = s.length,
                  .table = angles.data(),
                  .x = x.reference(),
                  .x_stride = s.stride,
                  .inverse = inverse};
      reference::rotary(args);
      args.dtype = GetParam();
      args.table = table.get();
      args.x = x.device();
      enqueue(args, gpu().launch());
      finish();
      x.expect_within([](std::size_t) { return 4 * kRoundoff * 6; }, "rotary");
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
