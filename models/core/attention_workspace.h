// Scratch memory of the CPU attention kernels that the planner has to plan. Depends on models/core only.
#pragma once

#include <cstdint>

#include "models/core/dtype.h"
#include "models/core/units.h"

namespace zeroplan {

/// The widest head the CPU kernels accept; their blocks live on the stack and are sized for it.
constexpr std::uint64_t kMaxHeadSize = 256;

/// Bytes that attention_backward writes into its workspace (64-byte aligned). With fp32 storage it needs none: the
/// gradient of q is summed in place. Narrower storage needs an fp32 copy of it.
inline Bytes attention_backward_workspace_bytes(std::uint64_t tokens, std::uint64_t heads, std::uint64_t head_size,
                                                DType dtype) {
  if (dtype == DType::kFp32) return Bytes(0);
  return Elements(tokens) * heads * head_size * DType::kFp32;
}

}  // namespace zeroplan
