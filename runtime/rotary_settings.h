// The rotary table of a model as the kernel that fills it wants it. Depends on models and kernels.
#pragma once

#include "kernels/rotary.h"
#include "models/model.h"

namespace zeroplan::runtime {

/// For `positions` positions; the caller sets `table`. \throws Error{kUnsupported} for a scaling other than linear and
/// llama3
kernels::RotaryTable rotary_settings(const models::DecoderShape& shape, std::uint64_t positions);

}  // namespace zeroplan::runtime
