#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

struct Case {
  std::size_t m, n, k;
  bool transpose_a, transpose_b, bias, accumulate;
};

class GemmCase : public ::testing::TestWithParam<Case> {};

// k products and additions, the bias, and the sum of blocks: each adds at most one roundoff of the sum of magnitudes.
TEST_P(GemmCase, MatchesReferenceAndDoesNotDependOnWorkers) {
  const Case& c = GetParam();
  const std::size_t a_stride = (c.transpose_a ? c.m : c.k) + 3;
  const std::size_t b_stride = (c.transpose_b ? c.k : c.n) + 1;
  const std::size_t c_stride = c.n + 2;
  const auto a = random_floats((c.transpose_a ? c.k : c.m) * a_stride, 1);
  const auto b = random_floats((c.transpose_b ? c.n : c.k) * b_stride, 2);
  const auto bias = random_floats(c.n, 3);
  const auto before = random_floats(c.m * c_stride, 4);
  Gemm args{.m = c.m,
            .n = c.n,
            .k = c.k,
            .transpose_a = c.transpose_a,
            .transpose_b = c.transpose_b,
            .a_stride = a_stride,
            .b_stride = b_stride,
            .c_stride = c_stride,
            .accumulate = c.accumulate};
  const auto reference = [&](const std::vector<double>& wide_a, const std::vector<double>& wide_b,
                             const std::vector<double>& wide_bias, std::vector<double> result) {
    Gemm wide = args;
    wide.dtype = wide.c_dtype = DType::kFp64;
    wide.a = wide_a.data();
    wide.b = wide_b.data();
    wide.c = result.data();
    wide.bias = c.bias ? wide_bias.data() : nullptr;
    reference::gemm(wide);
    return result;
  };
  const auto absolute = [](std::vector<double> values) {
    for (double& value : values) value = std::abs(value);
    return values;
  };
  const auto expected = reference(widen(a), widen(b), widen(bias), widen(before));
  const auto magnitude =
      reference(absolute(widen(a)), absolute(widen(b)), absolute(widen(bias)), absolute(widen(before)));

  const auto actual = same_for_all_workers([&](Workers& workers) {
    Workspace workspace(gemm_workspace_bytes(c.m, c.n, c.k, DType::kFp32).count());
    std::vector<float> result = before;
    args.a = a.data();
    args.b = b.data();
    args.c = result.data();
    args.bias = c.bias ? bias.data() : nullptr;
    args.workspace = workspace.get();
    cpu::gemm(args, workers);
    EXPECT_TRUE(workspace.exactly_written());
    return result;
  });
  const double steps = static_cast<double>(c.k) + 8;
  expect_within(actual, expected, [&](std::size_t i) {
    return i % c_stride < c.n ? steps * kRoundoff * magnitude[i] : 0;  // what lies between the rows stays as it was
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GemmCase,
    ::testing::Values(Case{1, 1, 1, false, false, false, false}, Case{7, 5, 3, false, false, true, false},
                      Case{7, 33, 300, true, false, true, true}, Case{100, 17, 64, false, true, true, false},
                      Case{13, 70, 513, true, true, false, true}, Case{37, 1100, 40, false, true, false, false},
                      Case{1, 64, 256, false, true, true, false}, Case{203, 48, 257, true, false, false, true},
                      Case{96, 32, 256, false, false, false, true}));

TEST(Gemm, RefusesUnknownStorage) {
  Workers workers(1);
  EXPECT_THROW(cpu::gemm({.dtype = DType::kInt8, .m = 1, .n = 1, .k = 1}, workers), Error);
}

}  // namespace
}  // namespace zeroplan::kernels
