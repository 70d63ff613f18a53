// The threads of one rank. Purpose: each lane runs its tasks in plan order and waits for others by counters; nothing is
// allocated between the begin and the end of a step. Main types: TaskBody, StepPosition, LaneTotals, Lanes. Knows the
// order, not the work.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/stop_signal.h"
#include "runtime/task_order.h"
#include "runtime/update_gate.h"

namespace zeroplan::runtime {

/// Where a task is in the run.
struct StepPosition {
  std::uint64_t update = 0;      ///< counted from the start of training, resumed steps included
  std::uint64_t micro_step = 0;  ///< of the update, from 0
};

/// What a task does.
class TaskBody {
 public:
  virtual ~TaskBody() = default;
  virtual void run(const StepPosition& position) = 0;
};

/// What a lane did. The first update of a run warms caches up and is counted apart.
struct LaneTotals {
  double busy_s = 0;       ///< in tasks
  double comm_wait_s = 0;  ///< waiting for tasks of the lanes gather and reduce
  std::uint64_t tasks = 0;
  std::uint64_t updates = 0;
};

/// One thread a lane. Phases and runs of updates begin and end with all lanes idle.
class Lanes {
 public:
  /// \param bodies  by step and position; the caller keeps them alive
  Lanes(const planner::Plan& plan, const TaskOrder& order, std::vector<std::vector<TaskBody*>> bodies,
        StopSignal& stop);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Begins a phase (a step index) and returns at once.
  void start_phase(std::size_t step, const StepPosition& position = {});
  /// Begins updates `first_update`, ... as `gate` admits them; it must live until `wait` returned.
  void start_updates(std::uint64_t first_update, const UpdateGate& gate);
  /// Returns once all lanes have ended what was started. \throws Stopped after a failure
  void wait();

  /// Only while idle.
  LaneTotals first_update(planner::Lane lane) const { return totals_[static_cast<std::size_t>(lane)].first; }
  LaneTotals later_updates(planner::Lane lane) const { return totals_[static_cast<std::size_t>(lane)].later; }

 private:
  /// A task as its lane sees it.
  struct Entry {
    TaskBody* body = nullptr;
    const TaskWaits* waits = nullptr;
  };
  struct Totals {
    LaneTotals first;
    LaneTotals later;
  };
  /// Counters of all lanes when a step begins.
  using Base = std::array<std::uint64_t, planner::kLaneCount>;

  void serve(std::size_t lane);
  void run_phase(std::size_t lane);
  void run_updates(std::size_t lane);
  void run_step(std::size_t lane, std::size_t step, const StepPosition& position, const std::size_t* previous,
                LaneTotals& totals);
  void wait_for(const WaitPoint& point, const Base& base, LaneTotals& totals) const;
  void start();
  void advance_base(std::size_t step, Base& base) const;

  const TaskOrder& order_;
  StopSignal& stop_;
  std::vector<std::array<std::vector<Entry>, planner::kLaneCount>> entries_;  ///< by step
  std::vector<std::size_t> active_;                                           ///< lanes of the plan
  std::array<Timeline, planner::kLaneCount> ended_;                           ///< tasks that each lane has ended
  std::array<Totals, planner::kLaneCount> totals_;
  /// Written at any time: after a failure the destructor does not wait for lanes to be idle.
  std::atomic<bool> quits_{false};
  // The command: written while all lanes are idle, read after `commands_` grew.
  std::size_t phase_ = 0;
  StepPosition phase_position_;
  std::uint64_t first_update_ = 0;
  const UpdateGate* gate_ = nullptr;  ///< null: a phase
  Base start_base_ = {};
  // Each lane's own: where the step it runs began, and the one before.
  struct alignas(64) Cursor {
    Base base = {};
    Base previous = {};
  };
  std::array<Cursor, planner::kLaneCount> cursors_;
  Timeline commands_;
  Timeline done_;
  std::uint64_t commands_given_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace zeroplan::runtime
