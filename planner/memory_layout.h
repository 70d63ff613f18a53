// Gives every buffer its offset: what persists at the bottom, the rest packed by who may live at once.
#pragma once

#include "planner/packing/packing.h"
#include "planner/plan.h"

namespace zeroplan::planner {

/// Sets offsets, arenas and lower bounds of all tiers. Waits must be complete.
/// \param most_work  see pack_conflicts
void lay_out_memory(Plan& plan, std::uint64_t most_work = kThoroughPacking);

/// Whether every arena is as small as its lower bound.
bool is_laid_out_tightly(const Plan& plan);

}  // namespace zeroplan::planner
