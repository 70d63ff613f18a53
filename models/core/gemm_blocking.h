// Blocking of the CPU matrix product, known to the planner because the packed block of B is planned memory.
// Main types: WeightLayout, and functions that say how many bytes of workspace an operation writes. Depends on
// models/core only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/core/dtype.h"
#include "models/core/units.h"

namespace zeroplan {

/// How a linear layer stores its weight.
enum class WeightLayout {
  kOutIn,  ///< [out, in], y = x W^T: torch.nn.Linear
  kInOut,  ///< [in, out], y = x W: gpt2's Conv1D
};

/// Rows of B (the inner extent) packed at once. Fixes the order of the summation: blocks of this many products, in
/// order.
constexpr std::uint64_t kGemmInnerBlock = 256;
/// Columns of B packed at once, a multiple of kGemmColumnPad.
constexpr std::uint64_t kGemmColumnBlock = 1024;
/// The packed block is padded with zeros to a multiple of this many columns: the widest register tile of any target.
constexpr std::uint64_t kGemmColumnPad = 32;

/// Rows of B packed at once for an inner extent of k (not 0): blocks as equal as possible. Fixes the order of the
/// summation: the blocks' sums are added one after the other.
inline std::uint64_t gemm_inner_block(std::uint64_t k) {
  return divide_up(k, divide_up(k, kGemmInnerBlock));
}

/// Bytes that a product with B of [k, n] writes into its workspace, which must be 64-byte aligned. They depend neither
/// on the number of rows nor on the number of workers. The packed block is fp32 whatever the storage type.
inline Bytes gemm_workspace_bytes(std::uint64_t n, std::uint64_t k) {
  const std::uint64_t columns = std::min(kGemmColumnBlock, round_up(Elements(n), kGemmColumnPad).count());
  return Elements(columns) * gemm_inner_block(k) * DType::kFp32;
}

/// Workspace of y [tokens, out] = x [tokens, in] W.
inline Bytes linear_forward_workspace_bytes(std::uint64_t in, std::uint64_t out) {
  return gemm_workspace_bytes(out, in);
}

/// Workspace of d_x [tokens, in] from d_y [tokens, out].
inline Bytes linear_backward_input_workspace_bytes(std::uint64_t in, std::uint64_t out) {
  return gemm_workspace_bytes(in, out);
}

/// Workspace of d_W from d_y [tokens, out] and x [tokens, in].
inline Bytes linear_backward_weight_workspace_bytes(std::uint64_t tokens, std::uint64_t in, std::uint64_t out,
                                                    WeightLayout layout) {
  return gemm_workspace_bytes(layout == WeightLayout::kOutIn ? in : out, tokens);
}

}  // namespace zeroplan
