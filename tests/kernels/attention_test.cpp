#include "kernels/attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

struct Case {
  std::size_t sequences, length, heads, kv_heads, head_size, window;
  bool fused;  ///< q, k, v and their gradients are columns of one tensor
};

/// All operands of a case in one element type.
template <class T>
struct Operands {
  Operands(const Case& c, DType dtype) : rows(c.sequences * c.length) {
    shape = {.dtype = dtype,
             .sequences = c.sequences,
             .sequence_length = c.length,
             .heads = c.heads,
             .kv_heads = c.kv_heads,
             .head_size = c.head_size,
             .scale = 1 / std::sqrt(static_cast<float>(c.head_size)),
             .window = c.window};
    const std::size_t wide = c.heads * c.head_size;
    const std::size_t narrow = c.kv_heads * c.head_size;
    const auto fill = [](std::vector<T>& to, std::size_t n, std::uint32_t seed) {
      const auto values = random_floats(n, seed);
      to.assign(values.begin(), values.end());
    };
    fill(qkv, rows * (wide + 2 * narrow), 1);
    fill(d_out, rows * wide, 2);
    out.resize(rows * wide);
    d_qkv.assign(qkv.size(), T(7));
    lse.resize(rows * c.heads);
    stride_q = c.fused ? wide + 2 * narrow : wide;
    stride_k = c.fused ? wide + 2 * narrow : narrow;
    at_k = c.fused ? wide : rows * wide;
    at_v = c.fused ? wide + narrow : rows * (wide + narrow);
  }

  AttentionForward forward() {
    return {.shape = shape,
            .q = qkv.data(),
            .q_stride = stride_q,
            .k = qkv.data() + at_k,
            .k_stride = stride_k,
            .v = qkv.data() + at_v,
            .v_stride = stride_k,
            .out = out.data(),
            .lse = lse.data()};
  }
  AttentionBackward backward() {
    return {.shape = shape,
            .d_out = d_out.data(),
            .q = qkv.data(),
            .q_stride = stride_q,
            .k = qkv.data() + at_k,
            .k_stride = stride_k,
            .v = qkv.data() + at_v,
            .v_stride = stride_k,
            .out = out.data(),
            .lse = lse.data(),
            .d_q = d_qkv.data(),
            .d_q_stride = stride_q,
            .d_k = d_qkv.data() + at_k,
            .d_k_stride = stride_k,
            .d_v = d_qkv.data() + at_v,
            .d_v_stride = stride_k};
  }

  std::size_t rows, stride_q, stride_k, at_k, at_v;
  AttentionShape shape;
  std::vector<T> qkv, d_out, out, d_qkv;
  std::vector<float> lse;
};

class CausalAttention : public ::testing::TestWithParam<Case> {};

/// Scores: head_size + 4 roundings of sums of products below 25 each, scaled by 1 / sqrt(head_size); their error e
/// makes a probability wrong by the factor e^e. Sums over at most `length` keys follow, of terms whose weights add
/// to 1.
double relative_error(const Case& c) {
  const double size = static_cast<double>(c.head_size);
  const double scores = (size + 4) * 25 * std::sqrt(size);
  return kRoundoff * (2 * scores + 2 * static_cast<double>(c.length) + 32);
}

TEST_P(CausalAttention, MatchesReference) {
  const Case& c = GetParam();
  Operands<double> expected(c, DType::kFp64);
  reference::attention_forward(expected.forward());
  reference::attention_backward(expected.backward());
  Operands<float> kept(c, DType::kFp32);
  const auto actual = same_for_all_workers([&](Workers& workers) {
    Operands<float> operands(c, DType::kFp32);
    cpu::attention_forward(operands.forward(), workers);
    cpu::attention_backward(operands.backward(), workers);
    kept = operands;
    std::vector<float> all = operands.out;
    all.insert(all.end(), operands.lse.begin(), operands.lse.end());
    all.insert(all.end(), operands.d_qkv.begin(), operands.d_qkv.end());
    return all;
  });
  const double relative = relative_error(c);
  expect_within(kept.out, expected.out, [&](std::size_t) { return relative * 5; });
  expect_within(kept.lse, widen(expected.lse), [&](std::size_t) { return relative * 8; });
  // A gradient sums, over the queries or keys of the group, scale x p x (d_out . v - delta) x q: each below 2 x 25
  // sqrt(head_size) x 5.
  const double terms = static_cast<double>(c.length * (c.heads / c.kv_heads));
  const double size = 250 * std::sqrt(static_cast<double>(c.head_size));
  expect_within(kept.d_qkv, expected.d_qkv, [&](std::size_t) { return relative * size * std::sqrt(terms); });
}

INSTANTIATE_TEST_SUITE_P(Shapes, CausalAttention,
                         ::testing::Values(Case{1, 1, 1, 1, 4, 0, false}, Case{2, 37, 4, 2, 16, 0, false},
                                           Case{1, 97, 2, 1, 64, 0, false}, Case{1, 200, 3, 3, 20, 0, true},
                                           Case{2, 192, 2, 2, 32, 0, true}, Case{1, 250, 4, 1, 8, 0, false},
                                           Case{1, 230, 2, 1, 16, 50, false}, Case{1, 300, 1, 1, 16, 97, false},
                                           Case{1, 110, 1, 1, 256, 0, false}));

TEST(CausalAttention, GradientMatchesFiniteDifferences) {
  for (std::size_t window : {0u, 2u}) {
    const Case c{
        .sequences = 2, .length = 5, .heads = 4, .kv_heads = 2, .head_size = 4, .window = window, .fused = true};
    Operands<double> operands(c, DType::kFp64);
    const auto loss = [&] {
      reference::attention_forward(operands.forward());
      return dot(operands.out, operands.d_out);
    };
    loss();
    reference::attention_backward(operands.backward());
    expect_gradient(operands.qkv, operands.d_qkv, loss, 50);
  }
}

TEST(CausalAttention, FirstTokenCopiesItsValue) {
  Workers workers(1);
  const Case c{.sequences = 1, .length = 2, .heads = 1, .kv_heads = 1, .head_size = 4, .window = 0, .fused = false};
  Operands<float> operands(c, DType::kFp32);
  cpu::attention_forward(operands.forward(), workers);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(operands.out[i], operands.qkv[operands.at_v + i]);
}

TEST(CausalAttention, NanStaysVisible) {
  Workers workers(2);
  const Case c{.sequences = 1, .length = 20, .heads = 1, .kv_heads = 1, .head_size = 8, .window = 0, .fused = false};
  Operands<float> operands(c, DType::kFp32);
  operands.qkv[operands.at_k + 8 * 5] = std::numeric_limits<float>::quiet_NaN();
  cpu::attention_forward(operands.forward(), workers);
  EXPECT_TRUE(std::isfinite(operands.out[8 * 4]));
  EXPECT_TRUE(std::isnan(operands.out[8 * 5]));
}

}  // namespace
}  // namespace zeroplan::kernels
