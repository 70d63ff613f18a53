// How little memory the ops of a plan's order can do with, looking inside units. Depends on lifetimes.
#pragma once

#include <vector>

#include "planner/happens_before.h"

namespace zeroplan::planner {

/// The most bytes that hold values at one op, with the tasks one after another in plan order: saved tensors count from
/// the op that writes them first to the op that reads them last, and so do the gradients of a unit that begins them and
/// its scratch. No arena of this order can be smaller, whatever it packs as one buffer; so this is at most
/// `TierPlan::lower_bound`, and the difference is what packing units as wholes costs.
/// \param runs  those of run_sequences
Bytes op_level_bound(const Plan& plan, const std::vector<TaskRun>& runs, Tier tier);

}  // namespace zeroplan::planner
