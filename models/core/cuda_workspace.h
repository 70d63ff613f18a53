// Scratch memory of the CUDA kernels that the planner has to plan: functions of shapes alone, so that no device is
// needed. Depends on models/core only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/core/dtype.h"
#include "models/core/units.h"

namespace zeroplan {

/// What every matrix product may use; cuBLASLt is asked only for algorithms that need no more. (NVIDIA recommends 32
/// MiB for Hopper in the cuBLAS documentation, "cublasSetWorkspace".)
constexpr Bytes kCudaGemmWorkspace{std::uint64_t{32} << 20};

/// Partial sums over rows are taken in at most this many parts, whatever the device.
constexpr std::uint64_t kCudaColumnSumParts = 264;

/// Rows that a part of a sum over rows has at least.
constexpr std::uint64_t kCudaColumnSumRows = 16;

/// Partial sums of squares are taken in at most this many parts.
constexpr std::uint64_t kCudaSquareParts = 1024;

/// Tokens that one block of the embedding's sort handles, and digits of one pass of it.
constexpr std::uint64_t kCudaSortTile = 1024;
constexpr std::uint64_t kCudaSortDigits = 512;

/// Parts of a sum over `rows`.
inline std::uint64_t cuda_column_sum_parts(std::uint64_t rows) {
  return std::max<std::uint64_t>(1, std::min(kCudaColumnSumParts, divide_up(rows, kCudaColumnSumRows)));
}

/// Of `results` sums over the rows of [rows, width]: norm weights (and biases), a linear layer's bias.
inline Bytes cuda_column_sum_workspace_bytes(std::uint64_t rows, std::uint64_t width, std::uint64_t results) {
  return Elements(cuda_column_sum_parts(rows)) * width * results * DType::kFp32;
}

/// Of the embedding's backward pass: the ids and the tokens' indices, each twice, and counts of digits by tile.
inline Bytes cuda_embedding_backward_workspace_bytes(std::uint64_t tokens) {
  const Elements sorted = Elements(4) * round_up(Elements(tokens), 4).count();
  const Elements counts = Elements(kCudaSortDigits) * divide_up(tokens, kCudaSortTile);
  return (sorted + counts) * DType::kInt32;
}

/// Of attention's forward pass, for what cuDNN keeps besides the result: it was seen to ask for a number for each row
/// and head. Where it asks for more, an algorithm that needs less runs. The own kernel needs none.
inline Bytes cuda_attention_forward_workspace_bytes(std::uint64_t tokens, std::uint64_t heads, DType dtype) {
  if (dtype == DType::kFp32) return Bytes();
  return Elements(2) * tokens * heads * DType::kFp32 + Bytes(std::uint64_t{1} << 20);
}

/// Of the gradient of attention: d_out . out of each row and head, an fp32 copy of d_q, and 1 MiB for what cuDNN
/// keeps besides. Where cuDNN asks for more than the plan has, the own kernel runs.
inline Bytes cuda_attention_backward_workspace_bytes(std::uint64_t tokens, std::uint64_t heads, std::uint64_t head_size,
                                                     DType dtype) {
  const Bytes delta = Elements(tokens) * heads * DType::kFp32;
  if (dtype == DType::kFp32) return delta;
  return delta + Elements(tokens) * heads * head_size * DType::kFp32 + Bytes(std::uint64_t{1} << 20);
}

/// Of a sum of squares. LAMB's norms, two sums at once, need twice as much.
inline Bytes cuda_sum_of_squares_workspace_bytes() {
  return Elements(kCudaSquareParts) * DType::kFp64;
}

}  // namespace zeroplan
