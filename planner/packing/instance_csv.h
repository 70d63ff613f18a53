// Packing instances as text: the public format `id,lower,upper,size`, a buffer live in [lower, upper). Main type:
// NamedInstance. The text is untrusted. Depends on planner/packing/packing.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/packing/packing.h"

namespace zeroplan::planner {

struct NamedInstance {
  std::vector<std::string> ids;  ///< one per buffer, all different
  std::vector<IntervalBuffer> buffers;
};

/// Reads the columns id, lower, upper and size, in any order; other columns are left out. `file` is only named in
/// errors. \throws Error{kInvalidInput} with line and column name for whatever is missing, repeated, no whole number,
/// negative, beyond 63
///   bits, or not lower < upper
NamedInstance read_instance_csv(std::string_view text, const std::string& file);

/// The same columns and `offset`.
std::string write_packing_csv(const NamedInstance& instance, std::span<const std::uint64_t> offsets);

}  // namespace zeroplan::planner
