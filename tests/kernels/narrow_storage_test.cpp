#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "tests/kernels/kernel_testing.h"

// Math and sums are fp32 whatever the storage. So a kernel on 16-bit operands must give, bit for bit, what the fp32
// kernel gives on the same values, rounded once: the fp32 kernels are held against their reference twins elsewhere.

namespace zeroplan::kernels {
namespace {

using namespace testing;

enum class Role { kRead, kWritten, kAddedTo, kStatistic };

struct OperandSpec {
  std::size_t elements = 0;
  Role role = Role::kRead;
  double spread = 1;
};

using Operands = std::vector<void*>;

/// A kernel on operands of a storage type; statistics are fp32.
struct StorageCase {
  std::string name;
  std::vector<OperandSpec> operands;
  std::function<void(DType, const Operands&, Workers&)> run;
};

std::vector<std::uint16_t> narrow(DType type, const std::vector<float>& values) {
  std::vector<std::uint16_t> result(values.size());
  reference::copy({.out_dtype = type, .count = values.size(), .x = values.data(), .out = result.data()});
  return result;
}
std::vector<float> widened(DType type, const std::vector<std::uint16_t>& values) {
  std::vector<float> result(values.size());
  reference::copy({.dtype = type, .count = values.size(), .x = values.data(), .out = result.data()});
  return result;
}

const std::vector<std::int32_t>& token_ids() {
  static const std::vector<std::int32_t> kIds = [] {
    std::vector<std::int32_t> ids(160);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 23);
    return ids;
  }();
  return kIds;
}

constexpr std::size_t kRows = 75, kWidth = 53;
constexpr std::size_t kScratch = 1 << 20;

void* scratch() {
  static Workspace workspace(4 * kScratch);
  return workspace.get();
}

StorageCase gemm_case(std::size_t m, std::size_t n, std::size_t k, bool transpose_a, bool transpose_b) {
  return {.name = "gemm",
          .operands = {{m * k}, {k * n}, {n}, {m * n, Role::kWritten}},
          .run = [=](DType type, const Operands& o, Workers& workers) {
            Workspace workspace(gemm_workspace_bytes(m, n, k, type).count());
            cpu::gemm({.dtype = type,
                       .c_dtype = type,
                       .m = m,
                       .n = n,
                       .k = k,
                       .transpose_a = transpose_a,
                       .transpose_b = transpose_b,
                       .a = o[0],
                       .a_stride = transpose_a ? m : k,
                       .b = o[1],
                       .b_stride = transpose_b ? k : n,
                       .c = o[3],
                       .c_stride = n,
                       .bias = o[2],
                       .workspace = workspace.get()},
                      workers);
            EXPECT_TRUE(workspace.exactly_written());
          }};
}

StorageCase linear_backward_case(WeightLayout layout, bool accumulate) {
  const std::size_t tokens = 60, in = 37, out = 70;  // one block, one chunk: sums are added to the result last
  const Role role = accumulate ? Role::kAddedTo : Role::kWritten;
  return {.name = "linear_backward",
          .operands = {{tokens * out}, {tokens * in}, {in * out}, {in * out, role}, {out, role}, {tokens * in, role}},
          .run = [=](DType type, const Operands& o, Workers& workers) {
            cpu::linear_backward_weight({.dtype = type,
                                         .gradient_dtype = type,
                                         .layout = layout,
                                         .tokens = tokens,
                                         .in = in,
                                         .out = out,
                                         .d_y = o[0],
                                         .x = o[1],
                                         .d_weight = o[3],
                                         .d_bias = o[4],
                                         .accumulate = accumulate,
                                         .accumulate_bias = accumulate,
                                         .workspace = scratch()},
                                        workers);
            cpu::linear_backward_input({.dtype = type,
                                        .layout = layout,
                                        .tokens = tokens,
                                        .in = in,
                                        .out = out,
                                        .d_y = o[0],
                                        .weight = o[2],
                                        .d_x = o[5],
                                        .accumulate = accumulate,
                                        .workspace = scratch()},
                                       workers);
          }};
}

StorageCase embedding_backward_case(bool accumulate) {
  const std::size_t vocabulary = 25, positions = 41, length = 40;
  const Role role = accumulate ? Role::kAddedTo : Role::kWritten;
  return {.name = "embedding_backward",
          .operands = {{160 * kWidth}, {vocabulary * kWidth, role}, {positions * kWidth, role}},
          .run = [=](DType type, const Operands& o, Workers& workers) {
            Workspace workspace(embedding_backward_workspace_bytes(160, type).count());
            cpu::embedding_backward({.dtype = type,
                                     .gradient_dtype = type,
                                     .tokens = 160,
                                     .width = kWidth,
                                     .sequence_length = length,
                                     .vocabulary = vocabulary,
                                     .positions = positions,
                                     .ids = token_ids().data(),
                                     .d_out = o[0],
                                     .d_token_table = o[1],
                                     .d_position_table = o[2],
                                     .accumulate = accumulate,
                                     .accumulate_position = accumulate,
                                     .workspace = workspace.get()},
                                    workers);
            EXPECT_TRUE(workspace.exactly_written());
          }};
}

StorageCase layer_norm_case(std::size_t rows) {
  return {.name = "layer_norm",
          .operands = {{rows * kWidth},
                       {kWidth},
                       {kWidth},
                       {rows * kWidth},
                       {rows * kWidth, Role::kWritten},
                       {rows, Role::kStatistic},
                       {rows, Role::kStatistic},
                       {rows * kWidth, Role::kAddedTo},
                       {kWidth, Role::kWritten},
                       {kWidth, Role::kWritten}},
          .run = [=](DType type, const Operands& o, Workers& workers) {
            cpu::layer_norm_forward({.dtype = type,
                                     .rows = rows,
                                     .width = kWidth,
                                     .x = o[0],
                                     .weight = o[1],
                                     .bias = o[2],
                                     .y = o[4],
                                     .mean = static_cast<float*>(o[5]),
                                     .rstd = static_cast<float*>(o[6])},
                                    workers);
            cpu::layer_norm_backward({.dtype = type,
                                      .gradient_dtype = type,
                                      .rows = rows,
                                      .width = kWidth,
                                      .d_y = o[3],
                                      .x = o[0],
                                      .weight = o[1],
                                      .mean = static_cast<float*>(o[5]),
                                      .rstd = static_cast<float*>(o[6]),
                                      .d_x = o[7],
                                      .d_weight = o[8],
                                      .d_bias = o[9],
                                      .accumulate = true},
                                     workers);
          }};
}

StorageCase rms_norm_case(std::size_t rows) {
  return {.name = "rms_norm",
          .operands = {{rows * kWidth},
                       {kWidth},
                       {rows * kWidth},
                       {rows * kWidth, Role::kWritten},
                       {rows, Role::kStatistic},
                       {rows * kWidth, Role::kAddedTo},
                       {kWidth, Role::kWritten}},
          .run = [=](DType type, const Operands& o, Workers& workers) {
            cpu::rms_norm_forward({.dtype = type,
                                   .rows = rows,
                                   .width = kWidth,
                                   .x = o[0],
                                   .weight = o[1],
                                   .y = o[3],
                                   .rstd = static_cast<float*>(o[4])},
                                  workers);
            cpu::rms_norm_backward({.dtype = type,
                                    .gradient_dtype = type,
                                    .rows = rows,
                                    .width = kWidth,
                                    .d_y = o[2],
                                    .x = o[0],
                                    .weight = o[1],
                                    .rstd = static_cast<float*>(o[4]),
                                    .d_x = o[5],
                                    .d_weight = o[6],
                                    .accumulate = true},
                                   workers);
          }};
}

StorageCase attention_case(std::size_t head_size, std::size_t window) {
  const std::size_t length = 130, heads = 4, kv_heads = 2, wide = heads * head_size, narrow = kv_heads * head_size;
  return {.name = "attention",
          .operands = {{length * wide},
                       {length * narrow},
                       {length * narrow},
                       {length * wide},
                       {length * wide},
                       {length * wide, Role::kWritten},
                       {length * heads, Role::kStatistic},
                       {length * wide, Role::kWritten},
                       {length * narrow, Role::kWritten},
                       {length * narrow, Role::kWritten}},
          .run = [=](DType type, const Operands& o, Workers& workers) {
            const AttentionShape shape{.dtype = type,
                                       .sequences = 1,
                                       .sequence_length = length,
                                       .heads = heads,
                                       .kv_heads = kv_heads,
                                       .head_size = head_size,
                                       .scale = 0.2f,
                                       .window = window};
            auto* lse = static_cast<float*>(o[6]);
            cpu::attention_forward({.shape = shape, .q = o[0], .k = o[1], .v = o[2], .out = o[5], .lse = lse}, workers);
            // The backward pass reads a result given to both, since the forward pass rounds its own.
            cpu::attention_backward({.shape = shape,
                                     .d_out = o[3],
                                     .q = o[0],
                                     .k = o[1],
                                     .v = o[2],
                                     .out = o[4],
                                     .lse = lse,
                                     .d_q = o[7],
                                     .d_k = o[8],
                                     .d_v = o[9],
                                     .workspace = scratch()},
                                    workers);
          }};
}

StorageCase elementwise_case() {
  constexpr std::size_t kCount = 5003;
  return {.name = "elementwise",
          .operands = {{kCount, Role::kRead, 4},
                       {kCount},
                       {kCount},
                       {kCount, Role::kWritten},
                       {kCount, Role::kWritten},
                       {kCount, Role::kWritten},
                       {kCount, Role::kWritten},
                       {kCount, Role::kWritten},
                       {kCount, Role::kWritten},
                       {kCount, Role::kAddedTo}},
          .run = [](DType type, const Operands& o, Workers& workers) {
            cpu::gelu_forward({.dtype = type, .count = kCount, .x = o[0], .y = o[3]}, workers);
            cpu::gelu_backward({.dtype = type, .count = kCount, .d_y = o[1], .x = o[0], .d_x = o[4]}, workers);
            cpu::gated_silu_forward({.dtype = type, .count = kCount, .gate = o[0], .up = o[1], .y = o[5]}, workers);
            cpu::gated_silu_backward(
                {.dtype = type, .count = kCount, .d_y = o[2], .gate = o[0], .up = o[1], .d_gate = o[6], .d_up = o[7]},
                workers);
            cpu::add({.dtype = type, .count = kCount, .a = o[0], .b = o[1], .out = o[8]}, workers);
            cpu::scale({.dtype = type, .count = kCount, .x = o[9], .factor = 0.3f}, workers);
          }};
}

StorageCase embedding_forward_case() {
  return {.name = "embedding_and_rotary",
          .operands = {{25 * kWidth}, {40 * kWidth}, {160 * kWidth, Role::kWritten}, {160 * 24, Role::kAddedTo}},
          .run = [](DType type, const Operands& o, Workers& workers) {
            cpu::embedding_forward({.dtype = type,
                                    .tokens = 160,
                                    .width = kWidth,
                                    .sequence_length = 40,
                                    .ids = token_ids().data(),
                                    .token_table = o[0],
                                    .position_table = o[1],
                                    .out = o[2]},
                                   workers);
            std::vector<float> table(40 * 8);
            fill_rotary_table({.positions = 40, .head_size = 8, .table = table.data()});
            cpu::rotary({.dtype = type,
                         .tokens = 160,
                         .heads = 3,
                         .head_size = 8,
                         .sequence_length = 40,
                         .table = table.data(),
                         .x = o[3]},
                        workers);
          }};
}

StorageCase cross_entropy_case() {
  return {.name = "cross_entropy",
          .operands = {{160 * kWidth, Role::kAddedTo, 3}, {160, Role::kStatistic}},
          .run = [](DType type, const Operands& o, Workers& workers) {
            StepScalars scalars;
            scalars.loss_scale = 1024;
            scalars.inverse_valid_tokens = 1.0 / 160;
            cpu::cross_entropy({.dtype = type,
                                .rows = 160,
                                .vocabulary = kWidth,
                                .labels = token_ids().data(),
                                .logits = o[0],
                                .row_losses = static_cast<float*>(o[1]),
                                .scalars = &scalars},
                               workers);
          }};
}

/// The update reads a 16-bit gradient and rounds the parameter into a copy.
StorageCase adamw_case() {
  constexpr std::size_t kCount = 5003;
  return {.name = "adamw",
          .operands = {{kCount},
                       {kCount, Role::kWritten},
                       {kCount, Role::kStatistic},
                       {kCount, Role::kStatistic},
                       {kCount, Role::kStatistic}},
          .run = [](DType type, const Operands& o, Workers& workers) {
            StepScalars scalars;
            scalars.learning_rate = 1e-2;
            scalars.inverse_loss_scale = 0.25;
            advance_optimizer_step(scalars);
            cpu::adamw({.gradient_dtype = type,
                        .count = kCount,
                        .parameter = static_cast<float*>(o[2]),
                        .gradient = o[0],
                        .first_moment = static_cast<float*>(o[3]),
                        .second_moment = static_cast<float*>(o[4]),
                        .copy_dtype = type,
                        .parameter_copy = o[1],
                        .scalars = &scalars},
                       workers);
          }};
}

std::vector<StorageCase> storage_cases() {
  return {gemm_case(37, 45, 700, false, true),
          gemm_case(131, 1100, 40, true, false),
          gemm_case(1100, 70, 300, true, true),  // more rows than sums wait for
          linear_backward_case(WeightLayout::kOutIn, false),
          linear_backward_case(WeightLayout::kInOut, true),
          embedding_forward_case(),
          embedding_backward_case(false),
          embedding_backward_case(true),
          layer_norm_case(kRows * 3),
          rms_norm_case(kRows * 3),
          attention_case(16, 0),
          attention_case(24, 100),
          elementwise_case(),
          cross_entropy_case(),
          adamw_case()};
}

/// Buffers of one run.
class Buffers {
 public:
  Buffers(const StorageCase& test, DType type, DType values_of) {
    for (std::size_t i = 0; i < test.operands.size(); ++i) {
      const OperandSpec& spec = test.operands[i];
      const bool is_statistic = spec.role == Role::kStatistic;
      auto values = random_floats(spec.elements, static_cast<std::uint32_t>(i + 1), spec.spread);
      if (spec.role == Role::kWritten) std::fill(values.begin(), values.end(), -77.0f);
      if (is_statistic) std::fill(values.begin(), values.end(), 0.5f);
      const auto rounded = narrow(values_of, values);
      const bool is_wide = is_statistic || type == DType::kFp32;
      floats_.push_back(is_statistic ? values : widened(values_of, rounded));
      halves_.push_back(rounded);
      pointers_.push_back(is_wide ? static_cast<void*>(floats_.back().data()) : halves_.back().data());
    }
  }
  const Operands& pointers() const { return pointers_; }
  const std::vector<float>& floats(std::size_t i) const { return floats_[i]; }
  const std::vector<std::uint16_t>& halves(std::size_t i) const { return halves_[i]; }

 private:
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<std::uint16_t>> halves_;
  Operands pointers_;
};

class NarrowStorage : public ::testing::TestWithParam<DType> {};

TEST_P(NarrowStorage, IsTheFp32ResultRoundedOnce) {
  for (const StorageCase& test : storage_cases()) {
    SCOPED_TRACE(test.name);
    Workers one(1);
    Buffers wide(test, DType::kFp32, GetParam());
    test.run(DType::kFp32, wide.pointers(), one);
    for (const int count : {1, 3}) {
      Workers workers(count);
      Buffers stored(test, GetParam(), GetParam());
      test.run(GetParam(), stored.pointers(), workers);
      for (std::size_t i = 0; i < test.operands.size(); ++i) {
        const Role role = test.operands[i].role;
        if (role == Role::kRead) continue;
        if (role == Role::kStatistic) {
          EXPECT_TRUE(same_bits(stored.floats(i), wide.floats(i))) << "operand " << i << ", " << count << " workers";
          continue;
        }
        const auto expected = narrow(GetParam(), wide.floats(i));
        const auto [actual, wanted] = std::mismatch(stored.halves(i).begin(), stored.halves(i).end(), expected.begin());
        EXPECT_TRUE(actual == stored.halves(i).end())
            << "operand " << i << ", " << count << " workers, element " << actual - stored.halves(i).begin();
      }
    }
  }
}

// A twin in the same storage rounds once from fp64: k products and sums in fp32 are off by k roundoffs of the sum of
// magnitudes, and each of the two results is rounded by at most half a unit of its storage.
TEST_P(NarrowStorage, AccumulatedProductStaysNearItsTwin) {
  constexpr std::size_t kM = 40, kN = 50, kK = 700;
  const auto a = narrow(GetParam(), random_floats(kM * kK, 1));
  const auto b = narrow(GetParam(), random_floats(kK * kN, 2));
  const auto before = narrow(GetParam(), random_floats(kM * kN, 3));
  Gemm args{.dtype = GetParam(),
            .c_dtype = GetParam(),
            .m = kM,
            .n = kN,
            .k = kK,
            .a = a.data(),
            .a_stride = kK,
            .b = b.data(),
            .b_stride = kN,
            .c_stride = kN,
            .accumulate = true};
  auto expected = before;
  args.c = expected.data();
  reference::gemm(args);
  auto actual = before;
  args.c = actual.data();
  args.workspace = scratch();
  Workers workers(2);
  cpu::gemm(args, workers);
  const auto wide_expected = widened(GetParam(), expected);
  const double unit = GetParam() == DType::kBf16 ? 0x1p-8 : 0x1p-11;
  expect_within(widened(GetParam(), actual), widen(wide_expected),
                [&](std::size_t i) { return 2 * unit * std::abs(wide_expected[i]) + kRoundoff * kK * 25 * kK; });
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowStorage, ::testing::Values(DType::kBf16, DType::kFp16));

}  // namespace
}  // namespace zeroplan::kernels
