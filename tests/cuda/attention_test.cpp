#include <cmath>

#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/cudnn_attention.h"
#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::finish;
using testing::gpu;
using testing::kRoundoff;
using testing::Operand;
using testing::run_twice;

struct Case {
  std::size_t sequences, length, heads, kv_heads, head_size, window;
  bool fused;  ///< q, k, v and their gradients are columns of one tensor
};

/// All operands of a case: q, k and v in one array, fused or one behind the other.
struct Operands {
  Operands(const Case& c, DType dtype)
      : wide(c.heads * c.head_size),
        narrow(c.kv_heads * c.head_size),
        rows(c.sequences * c.length),
        shape{.dtype = dtype,
              .sequences = c.sequences,
              .sequence_length = c.length,
              .heads = c.heads,
              .kv_heads = c.kv_heads,
              .head_size = c.head_size,
              .scale = 1 / std::sqrt(static_cast<float>(c.head_size)),
              .window = c.window},
        qkv(Operand::random(dtype, rows * (wide + 2 * narrow), 1)),
        d_out(Operand::random(dtype, rows * wide, 2)),
        out(Operand::output(dtype, rows * wide)),
        d_qkv(Operand::output(dtype, rows * (wide + 2 * narrow))),
        lse(Operand::output(DType::kFp32, rows * c.heads)),
        lse_values(rows * c.heads),
        q_stride(c.fused ? wide + 2 * narrow : wide),
        k_stride(c.fused ? wide + 2 * narrow : narrow),
        k_at(c.fused ? wide : rows * wide),
        v_at(c.fused ? wide + narrow : rows * (wide + narrow)) {}

  AttentionForward forward() {
    return {.shape = shape,
            .q = qkv.device(),
            .q_stride = q_stride,
            .k = qkv.device_at(k_at),
            .k_stride = k_stride,
            .v = qkv.device_at(v_at),
            .v_stride = k_stride,
            .out = out.device(),
            .lse = static_cast<float*>(lse.device())};
  }
  AttentionBackward backward() {
    return {.shape = shape,
            .d_out = d_out.device(),
            .q = qkv.device(),
            .q_stride = q_stride,
            .k = qkv.device_at(k_at),
            .k_stride = k_stride,
            .v = qkv.device_at(v_at),
            .v_stride = k_stride,
            .out = out.device(),
            .lse = static_cast<const float*>(lse.device()),
            .d_q = d_qkv.device(),
            .d_q_stride = q_stride,
            .d_k = d_qkv.device_at(k_at),
            .d_k_stride = k_stride,
            .d_v = d_qkv.device_at(v_at),
            .d_v_stride = k_stride};
  }
  /// Fills the host's side by the reference. The device's lse lies [sequences, heads, length].
  void run_reference() {
    AttentionForward f = forward();
    f.shape.dtype = DType::kFp64;
    f.q = qkv.reference();
    f.k = qkv.reference() + k_at;
    f.v = qkv.reference() + v_at;
    f.out = out.reference();
    f.lse = lse_values.data();
    reference::attention_forward(f);
    AttentionBackward b = backward();
    b.shape.dtype = DType::kFp64;
    b.d_out = d_out.reference();
    b.q = f.q;
    b.k = f.k;
    b.v = f.v;
    b.out = out.reference();
    b.lse = lse_values.data();
    b.d_q = d_qkv.reference();
    b.d_k = d_qkv.reference() + k_at;
    b.d_v = d_qkv.reference() + v_at;
    reference::attention_backward(b);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t h = 0; h < shape.heads; ++h) {
        const std::size_t sequence = row / shape.sequence_length;
        lse.host()[(sequence * shape.heads + h) * shape.sequence_length + row % shape.sequence_length] =
            lse_values[row * shape.heads + h];
      }
    }
  }

  std::size_t wide, narrow, rows;
  AttentionShape shape;
  Operand qkv, d_out, out, d_qkv, lse;
  std::vector<float> lse_values;
  std::size_t q_stride, k_stride, k_at, v_at;
};

/// As the CPU's test derives it: scores of head_size + 4 roundings of products below 25, whose error makes a
/// probability wrong by its exponential; sums over at most `length` keys follow.
double fp32_error(const Case& c) {
  const double size = static_cast<double>(c.head_size);
  return kRoundoff * (2 * (size + 4) * 25 * std::sqrt(size) + 2 * static_cast<double>(c.length) + 32);
}

/// How far a way may be from the reference. With tensor cores the probabilities are rounded to the storage type before
/// they meet v: each is off by a unit u of it, so out by u x max |v| (weights add to 1).
void expect_matches(const Case& c, Operands& o, bool rounds_probabilities) {
  const double u = rounds_probabilities ? testing::roundoff(o.shape.dtype) : 0;
  const double relative = fp32_error(c);
  o.out.expect_within([&](std::size_t) { return (relative + 2 * u) * 5; }, "out");
  o.lse.expect_within([&](std::size_t) { return relative * 8; }, "lse");
  // A gradient sums, over the queries or keys of the group, scale x p x (d_out . v - delta) x q with |q| < 5 and
  // |d_out . v - delta| < 2 x 25 sqrt(head_size) / sqrt(head_size): terms whose weights p add to about 1 over keys, and
  // over queries to less than 2 log(length) + 1 a head. out itself was rounded to the storage type, which moves delta
  // by u x 5 x 5 sqrt(head_size).
  const double group = static_cast<double>(c.heads / c.kv_heads);
  const double weights = (2 * std::log(static_cast<double>(c.length) + 1) + 1) * group;
  const double stored = testing::roundoff(o.shape.dtype) * 25;
  const double bound = weights * (5 * (2 * u * 50 + stored) + relative * 250);
  o.d_qkv.expect_within([&](std::size_t) { return bound; }, "gradients");
}

class CudaAttention : public ::testing::TestWithParam<std::tuple<Case, DType>> {};

constexpr Case kCases[] = {{1, 1, 1, 1, 4, 0, false},      {2, 37, 4, 2, 16, 0, false},   {1, 97, 2, 1, 64, 0, false},
                           {1, 200, 3, 3, 20, 0, true},    {2, 192, 2, 2, 64, 0, true},   {1, 130, 4, 1, 128, 0, true},
                           {1, 230, 2, 1, 64, 50, false},  {1, 300, 1, 1, 128, 97, true}, {1, 110, 1, 1, 256, 0, false},
                           {1, 150, 2, 2, 100, 10, false}, {1, 129, 1, 1, 64, 1, false}};

TEST_P(CudaAttention, MatchesReference) {
  ZP_NEEDS_DEVICE();
  const auto& [c, dtype] = GetParam();
  Operands o(c, dtype);
  prepare(o.forward(), gpu().context);
  prepare(o.backward(), gpu().context);
  run_twice({&o.out, &o.lse}, [&] { enqueue(o.forward(), gpu().launch()); });
  run_twice({&o.d_qkv}, [&] { enqueue(o.backward(), gpu().launch()); });
  o.run_reference();
  expect_matches(c, o, dtype != DType::kFp32);
}

TEST_P(CudaAttention, TiledMatchesReference) {
  ZP_NEEDS_DEVICE();
  const auto& [c, dtype] = GetParam();
  if (dtype == DType::kFp32) return;  // the test above
  Operands o(c, dtype);
  AttentionForward forward = o.forward();
  forward.out_stride = o.wide;
  AttentionBackward backward = o.backward();
  backward.out_stride = backward.d_out_stride = o.wide;
  auto* delta = reinterpret_cast<float*>(gpu().workspace.get());
  run_twice({&o.out, &o.lse}, [&] { enqueue_tiled(forward, gpu().launch()); });
  run_twice({&o.d_qkv}, [&] {
    enqueue_delta(backward, delta, gpu().launch());
    enqueue_tiled(backward, delta, gpu().launch());
  });
  o.run_reference();
  expect_matches(c, o, false);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Case, DType>>& info) {
  const auto& [c, dtype] = info.param;
  std::string name(to_string(dtype));
  for (const std::size_t part : {c.sequences, c.length, c.heads, c.kv_heads, c.head_size, c.window}) {
    name += "_" + std::to_string(part);
  }
  return name + (c.fused ? "_fused" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttention,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(DType::kFp32, DType::kBf16, DType::kFp16)),
                         case_name);

/// Where cuDNN is found it takes the shapes that most models have.
TEST(CudaAttentionPaths, CudnnTakesTheUsualShapes) {
  ZP_NEEDS_DEVICE();
  if (gpu().context.cudnn() == nullptr) GTEST_SKIP() << "no cuDNN: " << gpu().context.cudnn_note();
  for (const Case c : {Case{2, 192, 2, 2, 64, 0, true}, Case{1, 130, 4, 1, 128, 0, true}}) {
    for (const DType dtype : {DType::kBf16, DType::kFp16}) {
      Operands o(c, dtype);
      EXPECT_EQ(implementation(o.forward(), gpu().context), "cudnn") << gpu().context.cudnn()->refusal();
      EXPECT_EQ(implementation(o.backward(), gpu().context), "cudnn") << gpu().context.cudnn()->refusal();
    }
  }
}

TEST(CudaAttentionValues, NanStaysVisible) {
  ZP_NEEDS_DEVICE();
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const Case c{.sequences = 1, .length = 80, .heads = 1, .kv_heads = 1, .head_size = 64, .window = 0, .fused = false};
    Operands o(c, dtype);
    std::vector<double> values = o.qkv.host();
    values[o.k_at + 64 * 5] = std::nan("");
    o.qkv.upload(values);
    enqueue(o.forward(), gpu().launch());
    finish();
    const std::vector<double> out = o.out.download();
    EXPECT_TRUE(std::isfinite(out[64 * 4]));
    EXPECT_TRUE(std::isnan(out[64 * 5]));
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
