// Executes a plan on one rank and nothing else. Purpose: the runtime's centre: arenas of the plan's sizes, a body for
// every task, lanes that run them in plan order. Main types: ExecutorOptions, Executor. Knows neither data nor files:
// TaskHooks brings them. Must not depend on simulator, reports or cli.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/run_record.h"
#include "runtime/lanes.h"
#include "runtime/task_bodies.h"

namespace zeroplan::runtime {

struct ExecutorOptions {
  int threads = 1;       ///< of the compute lane
  bool poison = false;   ///< test: bytes become NaN when their buffer's live range ends
  bool profile = false;  ///< measure each op
};

/// One rank. All calls from one thread; between `start_...` and `wait` its lanes run.
class Executor {
 public:
  /// Allocates and touches the arenas, resolves every task, starts the lanes. `plan`, `collectives`, `hooks` and `stop`
  /// must outlive it. \throws Error{kIo, kInvalidInput, kUnsupported}
  Executor(const planner::Plan& plan, Collectives& collectives, TaskHooks& hooks, StopSignal& stop,
           const ExecutorOptions& options);
  ~Executor();

  /// \throws Error{kInvalidInput} if the plan lacks the phase
  void start_phase(std::string_view name, const StepPosition& position = {});
  void start_updates(std::uint64_t first_update, const UpdateGate& gate) { lanes_->start_updates(first_update, gate); }
  /// \throws Stopped after a failure on any rank; StopSignal has the error
  void wait() { lanes_->wait(); }

  std::uint64_t rank() const { return collectives_.rank(); }
  const Arenas& arenas() const { return arenas_; }
  kernels::StepScalars& scalars();
  /// States of every group, by group.
  const std::vector<GroupState>& groups() const { return groups_; }
  /// Only while idle: the highest end of an access so far, rounded up to the tier's alignment.
  Bytes used(planner::Tier tier) const;
  /// Only while idle: lanes, moved bytes and tiers of the last run of updates; without the time of a step.
  planner::RunRecord record() const;
  /// Null without ExecutorOptions::profile.
  const StepProfile* profile() const { return profile_ ? &*profile_ : nullptr; }

 private:
  class TrackedBody;

  const planner::Plan& plan_;
  Collectives& collectives_;
  Arenas arenas_;
  kernels::Workers workers_;
  std::optional<StepProfile> profile_;
  TaskOrder order_;
  std::vector<std::vector<std::unique_ptr<TrackedBody>>> bodies_;  ///< by step and position
  std::vector<GroupState> groups_;
  planner::BufferId scalars_ = planner::kNoBuffer;
  std::unique_ptr<Lanes> lanes_;  ///< last: its threads end first
};

}  // namespace zeroplan::runtime
