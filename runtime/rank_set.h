// The ranks that live in this process: all of a loopback plan, or one of a group of processes. Purpose: start, stop and
// fail together. Main type: RankSet. Depends on executor and comm.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/comm/loopback.h"
#include "runtime/comm/process_group.h"
#include "runtime/executor.h"
#include "runtime/ranks.h"

namespace zeroplan::runtime {

/// Ranks as threads. One thread owns it and makes all calls.
class RankSet final : public Ranks {
 public:
  using MakeHooks = std::function<std::unique_ptr<TaskHooks>(std::uint64_t rank)>;

  /// Allocates the arenas of all ranks, or with `processes` those of this process' rank. `plan` and `processes` must
  /// outlive it. \throws as Executor
  RankSet(const planner::Plan& plan, const MakeHooks& make_hooks, const ExecutorOptions& options,
          ProcessGroup* processes = nullptr);

  void run_phase(std::string_view name, const StepPosition& position = {}) override;
  void start_updates(std::uint64_t first_update, const UpdateGate& gate) override;
  void finish_updates() override;

  StopSignal& stop() override { return stop_; }
  std::size_t size() const override { return executors_.size(); }
  kernels::StepScalars scalars(std::size_t rank) const override { return executors_.at(rank)->scalars(); }
  void set_scalars(std::size_t rank, const kernels::StepScalars& scalars) override {
    executors_.at(rank)->scalars() = scalars;
  }
  void restore(std::size_t rank, const std::function<void(const GroupState&)>& write) override;
  Bytes used(std::size_t rank, planner::Tier tier) const override { return executors_.at(rank)->used(tier); }
  Bytes written(std::size_t rank, planner::Tier tier) const override {
    return executors_.at(rank)->arenas().tier(tier).written();
  }
  planner::RunRecord record() const override { return executors_.front()->record(); }
  std::vector<StepProfile::Row> profile() const override {
    const StepProfile* profile = executors_.front()->profile();
    return profile != nullptr ? profile->rows() : std::vector<StepProfile::Row>();
  }

  std::uint64_t first_rank() const override { return first_rank_; }
  Executor& executor(std::size_t rank) { return *executors_.at(rank); }
  const Executor& executor(std::size_t rank) const { return *executors_.at(rank); }
  TaskHooks& hooks(std::size_t rank) { return *hooks_.at(rank); }

 private:
  void wait_for_all();

  StopSignal stop_;
  std::uint64_t first_rank_ = 0;
  std::optional<LoopbackGroup> group_;  ///< where no other process takes part
  std::vector<std::unique_ptr<Collectives>> collectives_;
  std::vector<std::unique_ptr<TaskHooks>> hooks_;
  std::vector<std::unique_ptr<Executor>> executors_;  ///< last: their threads end first
};

}  // namespace zeroplan::runtime
