// Which buffers hold values when, given when tasks ran. Main type: MemoryTimeline. Used by event_simulator.
#pragma once

#include <vector>

#include "planner/run_record.h"
#include "simulator/event_simulator.h"
#include "simulator/lane_engine.h"

namespace zeroplan::simulator {

/// The live bytes of one tier over a run, and what held them at the peak.
struct MemoryTimeline {
  planner::TierRecord record;
  std::vector<MemorySample> samples;  ///< by time; only if asked for
};

/// A buffer is live from the start of its first user to the end of its last one in a micro-step (in a cycle if it spans
/// it); those that are always live hold bytes throughout. \param origin_s  subtracted from the times of samples
MemoryTimeline memory_timeline(const planner::Plan& plan, const StepGraph& graph,
                               const std::vector<InstanceTimes>& instances, planner::Tier tier, bool keeps_samples,
                               double origin_s);

}  // namespace zeroplan::simulator
