// What a strategy takes at least, from its tasks alone: sums that no schedule can go below. Used by the tuner to leave
// out what cannot win; list schedules have anomalies, so nothing finer is used. Depends on cost_model.
#pragma once

#include "planner/cost_model.h"
#include "planner/plan.h"

namespace zeroplan::planner {

/// Seconds that forward, loss and backward programs take in one update. Equal for all leaves of an outline.
Seconds arithmetic_time(const Plan& skeleton, const CostModel& costs);

/// The busiest lane of one update: its tasks run one after another.
Seconds busiest_lane_time(const Plan& skeleton, const CostModel& costs);

/// Bytes of the device arena that keep their values over all steps and phases.
Bytes always_live_bytes(const Plan& skeleton);

/// Bytes of inputs, outputs, saved tensors and frames that the compute lane keeps, at the fullest task. They depend on
/// programs alone: not on the stage, and not on sizes of collectives.
Bytes activation_bytes_at_least(const Plan& skeleton);

/// Bytes of the device arena at the least: what always lives, and what the compute lane keeps from one of its tasks to
/// a later one, at the fullest task. `skeleton` need not have waits or offsets.
Bytes device_bytes_at_least(const Plan& skeleton);

}  // namespace zeroplan::planner
