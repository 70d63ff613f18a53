// Live intervals as sections of one clock. Main function: find_sections. Depends on planner/packing/packing.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/packing/packing.h"

namespace zeroplan::planner {

/// The stretches of time that matter: where a set of buffers is live that no other stretch contains.
struct Sections {
  struct Span {
    std::uint32_t first = 0;  ///< sections [first, last)
    std::uint32_t last = 0;
  };
  std::uint32_t count = 0;
  std::vector<Span> spans;  ///< per buffer; empty for one of size 0
};

/// Two buffers of a size above 0 share a section exactly if they are live at once. Cost n log n.
Sections find_sections(std::span<const IntervalBuffer> buffers);

}  // namespace zeroplan::planner
