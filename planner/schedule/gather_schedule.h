// When stage 3 gathers and releases groups: prefetch, max live, reuse distance. Main types: GatherLimits, Residency.
// Pure arithmetic over a sequence of compute tasks; knows no buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "models/core/units.h"

namespace zeroplan::planner {

/// In elements.
struct GatherLimits {
  std::uint64_t prefetch = 0;  ///< gathered ahead of the running compute task and not yet used
  std::uint64_t max_live = 0;  ///< gathered at any time
  std::uint64_t reuse_distance =
      0;  ///< a group stays gathered if so few elements, or fewer, are used before its next use
};

/// A group's stay in gathered form.
struct Residency {
  std::uint32_t group = 0;
  std::uint32_t first_use = 0;  ///< compute tasks, by position
  std::uint32_t last_use = 0;
  /// Compute task whose end allows the gather to start; -1: the start of the step.
  std::int64_t issued_after = -1;
};

/// \param uses  per compute task the groups that it needs gathered
/// \param elements  of each group, padded
/// \returns residencies by the order of their gathers
/// \throws Error{kUsage} if one task alone needs more than max_live
std::vector<Residency> schedule_gathers(const std::vector<std::vector<std::uint32_t>>& uses,
                                        const std::vector<std::uint64_t>& elements, const GatherLimits& limits);

/// Most elements gathered at once, from the issue of each gather to its last use.
std::uint64_t most_live(const std::vector<Residency>& residencies, const std::vector<std::uint64_t>& elements,
                        std::size_t compute_tasks);

}  // namespace zeroplan::planner
