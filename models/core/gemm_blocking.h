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

/// Most rows of C whose sums wait in the workspace at once.
constexpr std::uint64_t kGemmRowsOfSums = 1024;

/// Rows of B packed at once for an inner extent of k (not 0): blocks as equal as possible. Fixes the order of the
/// summation: the blocks' sums are added one after the other.
inline std::uint64_t gemm_inner_block(std::uint64_t k) {
  return divide_up(k, divide_up(k, kGemmInnerBlock));
}

/// Bytes of the packed block of B of [k, n]: fp32 whatever the storage type.
inline Bytes gemm_packed_bytes(std::uint64_t n, std::uint64_t k) {
  const std::uint64_t columns = std::min(kGemmColumnBlock, round_up(Elements(n), kGemmColumnPad).count());
  return Elements(columns) * gemm_inner_block(k) * DType::kFp32;
}

/// Rows of C that are finished before the next ones begin: all, but where sums wait in the workspace.
inline std::uint64_t gemm_row_block(std::uint64_t m, std::uint64_t k, DType c_dtype) {
  return c_dtype == DType::kFp32 || k <= kGemmInnerBlock ? m : std::min(kGemmRowsOfSums, m);
}

/// Bytes that C [m, n] = A B with B of [k, n] writes into its workspace, which must be 64-byte aligned. They do not
/// depend on the number of workers. Where C is narrower than fp32 and B takes several blocks of rows, the blocks' sums
/// for the rows and columns at hand stay there in fp32, to be rounded once.
inline Bytes gemm_workspace_bytes(std::uint64_t m, std::uint64_t n, std::uint64_t k, DType c_dtype) {
  const Bytes packed = gemm_packed_bytes(n, k);
  if (c_dtype == DType::kFp32 || k <= kGemmInnerBlock) return packed;
  return packed + Elements(std::min(kGemmColumnBlock, n)) * gemm_row_block(m, k, c_dtype) * DType::kFp32;
}

/// Workspace of y [tokens, out] = x [tokens, in] W.
inline Bytes linear_forward_workspace_bytes(std::uint64_t tokens, std::uint64_t in, std::uint64_t out, DType dtype) {
  return gemm_workspace_bytes(tokens, out, in, dtype);
}

/// Workspace of d_x [tokens, in] from d_y [tokens, out].
inline Bytes linear_backward_input_workspace_bytes(std::uint64_t tokens, std::uint64_t in, std::uint64_t out,
                                                   DType dtype) {
  return gemm_workspace_bytes(tokens, in, out, dtype);
}

/// Workspace of d_W from d_y [tokens, out] and x [tokens, in].
inline Bytes linear_backward_weight_workspace_bytes(std::uint64_t tokens, std::uint64_t in, std::uint64_t out,
                                                    WeightLayout layout, DType gradient_dtype) {
  const bool out_in = layout == WeightLayout::kOutIn;
  return gemm_workspace_bytes(out_in ? out : in, out_in ? in : out, tokens, gradient_dtype);
}

}  // namespace zeroplan
