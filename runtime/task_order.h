// The waits of a plan's tasks, resolved to positions on lanes. Purpose: a lane only compares counters while a step
// runs. Main types: WaitPoint, TaskOrder. Depends on planner/plan.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/plan.h"

namespace zeroplan::runtime {

using LaneCounts = std::array<std::uint32_t, planner::kLaneCount>;

/// "The first `count` tasks of `lane` in that step have ended."
struct WaitPoint {
  std::uint32_t lane = 0;
  std::uint32_t count = 0;
};

/// The waits of one task; at most one for each lane.
struct TaskWaits {
  std::vector<WaitPoint> same_step;
  /// Per possible step before, by index in Plan::steps: points in that step. Empty in phases.
  std::vector<std::vector<WaitPoint>> previous;
};

/// One step of a plan.
struct StepOrder {
  LaneCounts tasks_of_lane = {};
  std::vector<TaskWaits> waits;  ///< by position in Step::tasks
};

/// The order of all steps, and which training steps make one update.
struct TaskOrder {
  /// \throws Error{kInvalidInput} for a wait for something that does not come earlier
  explicit TaskOrder(const planner::Plan& plan);

  std::vector<StepOrder> steps;    ///< by index in Plan::steps
  std::vector<std::size_t> cycle;  ///< indices of the training steps of one update, in order, `middle` repeated
};

}  // namespace zeroplan::runtime
