// A plan for a checkpoint that comes without one.
#pragma once

#include "planner/plan.h"
#include "runtime/checkpoint/checkpoint.h"

namespace zeroplan::runtime {

/// The checkpoint's model, ranks and partition at stage 0, one sequence a pass. \throws as make_plan
planner::Plan plan_of_checkpoint(const Checkpoint& checkpoint);

}  // namespace zeroplan::runtime
