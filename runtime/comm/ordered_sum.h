// The sum over ranks, in rank order. Depends on kernels.
#pragma once

#include <cstddef>
#include <span>

#include "models/core/dtype.h"

namespace zeroplan::runtime {

/// out[i] (+)= parts[0][i] + parts[1][i] + ..., summed in that order in fp32 and rounded once. `out` may be one of the
/// parts. \throws Error{kUnsupported} for a type other than fp32, bf16 and fp16
void ordered_sum(DType dtype, std::span<const void* const> parts, std::size_t count, bool accumulate, void* out);

}  // namespace zeroplan::runtime
