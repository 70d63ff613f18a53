// What the system says about this process's memory.
#pragma once

#include <optional>

#include "models/core/units.h"

namespace zeroplan::runtime {

/// The most memory that was resident at once (VmHWM), or nothing where the system does not say.
std::optional<Bytes> resident_peak();
/// Resident now (VmRSS).
std::optional<Bytes> resident_now();

}  // namespace zeroplan::runtime
