// What the tasks of an optimizer's update do on the CPU (planner/schedule/update_tasks.h). Depends on task_bodies,
// kernels.
#pragma once

#include "runtime/task_bodies.h"

namespace zeroplan::runtime {

/// The body of a kUpdate, kMoments, kTensorNorms, kGatherTensorNorms or kTrustRatios.
/// \throws Error{kInvalidInput, kUnsupported}
std::unique_ptr<TaskBody> make_update_body(const TaskContext& context, const planner::Task& task);

}  // namespace zeroplan::runtime
