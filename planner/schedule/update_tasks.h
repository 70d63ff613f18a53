// The tasks of an optimizer's update, cut into sub-groups. Depends on schedule_writer.
#pragma once

#include "planner/schedule/schedule_writer.h"

namespace zeroplan::planner {

/// Writes the tasks that change parameters and moments once the gradient norm is known: "update/i" of each sub-group.
/// LAMB scales the update of each tensor by its norms, which its ranks know in parts: "moments/i" of each sub-group,
/// "tensor-norms" of this rank's shards, "gather-tensor-norms", "trust-ratios", then "update/i".
void write_update_tasks(ScheduleContext& context);

}  // namespace zeroplan::planner
