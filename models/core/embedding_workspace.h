// Scratch memory of the CPU embedding kernels that the planner has to plan. Depends on models/core only.
#pragma once

#include <cstdint>

#include "models/core/dtype.h"
#include "models/core/units.h"

namespace zeroplan {

/// Bytes that embedding_backward writes into its workspace (64-byte aligned): with gradients narrower than fp32 the
/// tokens' indices in the order of their ids, so that each row is summed in fp32 and rounded once.
inline Bytes embedding_backward_workspace_bytes(std::uint64_t tokens, DType gradient_dtype) {
  if (gradient_dtype == DType::kFp32) return Bytes(0);
  return Elements(tokens) * DType::kInt32;
}

}  // namespace zeroplan
