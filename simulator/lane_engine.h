// The event loop of the simulation: lanes, waits and shared cores. Main types: LaneEngine, TaskTimes. Used by
// event_simulator only.
#pragma once

#include <array>
#include <vector>

#include "planner/cost_model.h"
#include "simulator/step_graph.h"

namespace zeroplan::simulator {

/// When each task of one micro-step ran.
struct InstanceTimes {
  std::uint32_t step = 0;  ///< index into StepGraph::steps
  std::vector<double> start;
  std::vector<double> end;  ///< negative: has not ended
  double exposed_comm = 0;  ///< compute lane idle while gather or reduce run, before its next task of this micro-step
};

/// Runs `cycles` cycles one after another.
class LaneEngine {
 public:
  LaneEngine(const StepGraph& graph, const planner::CostModel& costs, std::size_t cycles);

  /// \throws Error{kInvalidInput} if no task can start although some are left
  void run();

  const std::vector<InstanceTimes>& instances() const { return instances_; }

 private:
  enum class State { kBlocked, kReady, kRunning, kDone };

  struct LaneState {
    State state = State::kBlocked;
    std::size_t instance = 0;  ///< of its next or running task
    std::size_t index = 0;     ///< among the lane's tasks of that micro-step
    double ready_at = 0;
    double left = 0;  ///< seconds of undisturbed work
    double cores = 0;
  };

  const SimulatedStep& step_of(std::size_t instance) const { return graph_->steps[instances_[instance].step]; }
  std::uint32_t task_of(std::size_t lane) const;
  void skip_finished_steps(std::size_t lane);
  /// Looks whether the lane's next task may start, and from when.
  void examine(std::size_t lane);
  bool start_ready();
  double speed() const;
  void advance(double until, double speed);
  void finish_due();

  const StepGraph* graph_;
  std::vector<InstanceTimes> instances_;
  std::array<LaneState, planner::kLaneCount> lanes_;
  double cores_ = 0;
  double lane_switch_ = 0;
  double now_ = 0;
};

}  // namespace zeroplan::simulator
