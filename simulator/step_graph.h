// A plan's training cycle as plain arrays for the event simulation. Main types: SimulatedTask, SimulatedStep,
// StepGraph. Depends on planner.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost_model.h"
#include "planner/plan.h"

namespace zeroplan::simulator {

struct SimulatedTask {
  std::uint8_t lane = 0;
  double work_s = 0;             ///< its time when nothing else competes
  std::uint32_t first_wait = 0;  ///< range in SimulatedStep::waits: positions in the same step
  std::uint32_t waits = 0;
};

/// A wait for a task of the training step before.
struct PreviousWait {
  std::uint32_t task = 0;      ///< position of the one that waits
  std::uint32_t previous = 0;  ///< position in the step before
};

struct SimulatedStep {
  std::uint32_t step = 0;  ///< index into Plan::steps
  std::vector<SimulatedTask> tasks;
  std::vector<std::uint32_t> waits;
  /// Per kind of step that may come before: sorted by `task`.
  std::vector<std::vector<PreviousWait>> waits_previous;
  std::vector<std::vector<std::uint32_t>> lanes;  ///< positions of each lane's tasks, in order
};

/// The steps of the training cycle, in plan order.
struct StepGraph {
  std::vector<SimulatedStep> steps;
  /// Micro-steps of one cycle as indices into `steps`: with many passes only some middle steps.
  std::vector<std::uint32_t> cycle;
  /// How many middle steps `cycle` leaves out.
  std::uint64_t left_out = 0;
};

struct StepGraphOptions {
  /// Leaves out waits between tasks that share addresses through different buffers only: those that memory alone
  /// demands.
  bool without_address_waits = false;
};

/// \throws Error{kInvalidInput} for a plan without training steps, or with a wait for a task that is not there
StepGraph make_step_graph(const planner::Plan& plan, const planner::CostModel& costs,
                          const StepGraphOptions& options = {});

}  // namespace zeroplan::simulator
