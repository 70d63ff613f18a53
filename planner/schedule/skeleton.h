// The skeleton of a plan: every buffer, task and program that model, training and strategy demand, without offsets and
// without the waits that data dependencies add. The verifier builds it again to see that a file lacks nothing.
#pragma once

#include "planner/plan.h"

namespace zeroplan::planner {

/// \throws Error{kUnsupported} for models, optimizers or offloads that no native plan executes; Error{kUsage} for
/// decisions that
///   contradict each other or the model.
Plan build_skeleton(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                    const Strategy& strategy);

}  // namespace zeroplan::planner
