// Discrete-event run of a plan's training cycle over its lanes. Purpose: predict step time, exposed communication and
// memory before anything runs. Ranks do the same things at the same time, so one rank is simulated. Main types:
// SimulationOptions, Simulation. Must not depend on runtime or kernels.
//
// Lanes run their tasks in order; a task starts once its lane is free and its waits have ended (list scheduling). On
// the CPU back end all lanes of all ranks share the cores: while they ask for more cores than there are, all of them
// slow down alike (processor sharing). The cycle is repeated until it is in its steady state, in which the step time is
// the period.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost_model.h"
#include "planner/run_record.h"

namespace zeroplan::simulator {

struct SimulationOptions {
  bool without_address_waits = false;  ///< see StepGraphOptions
  bool keeps_timeline = false;         ///< fills Simulation::tasks and ::memory
  bool time_only = false;              ///< of the record only the step time and tokens/s
};

/// A task of the cycle that was looked at.
struct TimelineTask {
  std::uint32_t step = 0;  ///< index into Plan::steps
  std::uint32_t micro_step = 0;
  std::uint32_t position = 0;  ///< index into Step::tasks
  double start_s = 0;          ///< from the begin of the cycle; tasks that run ahead are negative
  double end_s = 0;
};

/// Bytes that hold values on a tier from this moment on.
struct MemorySample {
  planner::Tier tier = planner::Tier::kDevice;
  double at_s = 0;
  Bytes live;
};

struct Simulation {
  planner::RunRecord record;
  std::vector<TimelineTask> tasks;
  std::vector<MemorySample> memory;
};

/// Simulates one rank of `plan` with the times of `costs`.
/// \throws Error{kInvalidInput} if the plan has no training steps, or tasks that wait for one another in a circle
Simulation simulate(const planner::Plan& plan, const planner::CostModel& costs, const SimulationOptions& options = {});

}  // namespace zeroplan::simulator
