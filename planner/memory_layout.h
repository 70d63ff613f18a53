// Gives every buffer its offset: what persists at the bottom, the rest packed by who may live at once.
#pragma once

#include "planner/plan.h"

namespace zeroplan::planner {

/// Sets offsets, arenas and lower bounds of all tiers. Waits must be complete.
void lay_out_memory(Plan& plan);

}  // namespace zeroplan::planner
