#include <algorithm>
#include <cmath>
#include <random>

#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::gpu;
using testing::kRoundoff;
using testing::Operand;
using testing::run_twice;

class CudaEmbedding : public testing::EachType {};
ZP_EACH_TYPE(CudaEmbedding);

struct Shape {
  std::size_t sequences, length, vocabulary, positions, width;
  bool skewed;  ///< most tokens have one id: more than a warp handles
};
constexpr Shape kShapes[] = {{1, 1, 1, 1, 8, false},       {2, 5, 11, 7, 24, false},     {3, 700, 600, 700, 40, false},
                             {2, 900, 513, 1024, 8, true}, {4, 33, 70000, 33, 8, false}, {1, 300, 20, 300, 13, true}};

std::vector<std::int32_t> ids_of(const Shape& s) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(s.vocabulary) - 1);
  std::vector<std::int32_t> ids(s.sequences * s.length);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = s.skewed && i % 5 != 0 ? static_cast<std::int32_t>(s.vocabulary / 2) : any(generator);
  }
  return ids;
}

TEST_P(CudaEmbedding, Forward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const bool with_positions : {true, false}) {
      const std::vector<std::int32_t> ids = ids_of(s);
      const testing::DeviceArray<std::int32_t> device_ids(ids);
      Operand table = Operand::random(GetParam(), s.vocabulary * s.width, 1);
      Operand positions = Operand::random(GetParam(), s.positions * s.width, 2);
      Operand out = Operand::output(GetParam(), ids.size() * s.width);
      EmbeddingForward args{.dtype = DType::kFp64,
                            .tokens = ids.size(),
                            .width = s.width,
                            .sequence_length = s.length,
                            .ids = ids.data(),
                            .token_table = table.reference(),
                            .position_table = with_positions ? positions.reference() : nullptr,
                            .out = out.reference()};
      reference::embedding_forward(args);
      args.dtype = GetParam();
      args.ids = device_ids.get();
      args.token_table = table.device();
      args.position_table = with_positions ? positions.device() : nullptr;
      args.out = out.device();
      run_twice({&out}, [&] { enqueue(args, gpu().launch()); });
      out.expect_relative(kRoundoff, "embedding");
    }
  }
}

/// The reference scans all tokens for each row; this gives the same sums at once.
void scatter(const EmbeddingBackward& args, const std::vector<double>& values, Operand& table, Operand& positions) {
  if (!args.accumulate) std::fill(table.host().begin(), table.host().end(), 0);
  if (!args.accumulate_position) std::fill(positions.host().begin(), positions.host().end(), 0);
  for (std::size_t t = 0; t < args.tokens; ++t) {
    for (std::size_t c = 0; c < args.width; ++c) {
      table.host()[static_cast<std::size_t>(args.ids[t]) * args.width + c] += values[t * args.width + c];
      positions.host()[t % args.sequence_length * args.width + c] += values[t * args.width + c];
    }
  }
}

TEST_P(CudaEmbedding, Backward) {
  ZP_NEEDS_DEVICE();
  for (const Shape s : kShapes) {
    for (const bool accumulate : {false, true}) {
      for (const DType gradient_type : {GetParam(), DType::kFp32}) {
        const std::vector<std::int32_t> ids = ids_of(s);
        const testing::DeviceArray<std::int32_t> device_ids(ids);
        Operand d_out = Operand::random(GetParam(), ids.size() * s.width, 1);
        Operand table = Operand::random(gradient_type, s.vocabulary * s.width, 2);
        Operand positions = Operand::random(gradient_type, s.positions * s.width, 3);
        if (!accumulate) {
          table.poison();
          positions.poison();
        }
        EmbeddingBackward args{.dtype = GetParam(),
                               .gradient_dtype = gradient_type,
                               .tokens = ids.size(),
                               .width = s.width,
                               .sequence_length = s.length,
                               .vocabulary = s.vocabulary,
                               .positions = s.positions,
                               .ids = device_ids.get(),
                               .d_out = d_out.device(),
                               .d_token_table = table.device(),
                               .d_position_table = positions.device(),
                               .accumulate = accumulate,
                               .accumulate_position = accumulate};
        run_twice({&table, &positions}, [&] { enqueue(args, gpu().launch()); });
        args.ids = ids.data();
        scatter(args, d_out.host(), table, positions);
        // Up to `tokens` terms of about 1 in one element: as many roundings of partial sums below 5 sqrt(tokens).
        const double n = static_cast<double>(ids.size());
        const auto bound = [&](std::size_t) { return kRoundoff * n * 5 * std::sqrt(n); };
        table.expect_within(bound, "d_token_table");
        positions.expect_within(bound, "d_position_table");
      }
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
