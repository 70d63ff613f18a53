// The ranks that live in this process. Purpose: start, stop and fail together. Main type: RankSet. Depends on executor
// and comm.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/comm/loopback.h"
#include "runtime/executor.h"

namespace zeroplan::runtime {

/// All ranks of a loopback plan, as threads. One thread owns it and makes all calls.
class RankSet {
 public:
  using MakeHooks = std::function<std::unique_ptr<TaskHooks>(std::uint64_t rank)>;

  /// Allocates every rank's arenas. `plan` must outlive it. \throws as Executor
  RankSet(const planner::Plan& plan, const MakeHooks& make_hooks, const ExecutorOptions& options);

  /// Runs a phase on all ranks. \throws the first error of any rank
  void run_phase(std::string_view name, const StepPosition& position = {});
  /// Starts updates on all ranks; `finish_updates` once the gate is closed.
  void start_updates(std::uint64_t first_update, const UpdateGate& gate);
  void finish_updates();

  StopSignal& stop() { return stop_; }
  std::size_t size() const { return executors_.size(); }
  Executor& executor(std::size_t rank) { return *executors_.at(rank); }
  const Executor& executor(std::size_t rank) const { return *executors_.at(rank); }
  TaskHooks& hooks(std::size_t rank) { return *hooks_.at(rank); }

 private:
  void wait_for_all();

  StopSignal stop_;
  LoopbackGroup group_;
  std::vector<std::unique_ptr<Collectives>> collectives_;
  std::vector<std::unique_ptr<TaskHooks>> hooks_;
  std::vector<std::unique_ptr<Executor>> executors_;  ///< last: their threads end first
};

}  // namespace zeroplan::runtime
