#include "runtime/rank_set.h"

#include <fmt/format.h>

namespace zeroplan::runtime {

RankSet::RankSet(const planner::Plan& plan, const MakeHooks& make_hooks, const ExecutorOptions& options,
                 ProcessGroup* processes) {
  if (processes != nullptr) {
    first_rank_ = processes->rank();
    collectives_.push_back(processes->collectives(stop_));
  } else {
    group_.emplace(plan.partition.ranks, stop_);
    for (std::uint64_t r = 0; r < plan.partition.ranks; ++r) collectives_.push_back(group_->rank(r));
  }
  for (std::size_t i = 0; i < collectives_.size(); ++i) {
    hooks_.push_back(make_hooks(first_rank_ + i));
    executors_.push_back(std::make_unique<Executor>(plan, *collectives_[i], *hooks_[i], stop_, options));
  }
}

void RankSet::run_phase(std::string_view name, const StepPosition& position) {
  for (auto& executor : executors_) executor->start_phase(name, position);
  wait_for_all();
}

void RankSet::start_updates(std::uint64_t first_update, const UpdateGate& gate) {
  for (auto& executor : executors_) executor->start_updates(first_update, gate);
}

void RankSet::restore(std::size_t rank, const std::function<void(const GroupState&)>& write) {
  for (const GroupState& group : executors_.at(rank)->groups()) write(group);
}

void RankSet::finish_updates() {
  wait_for_all();
}

void RankSet::wait_for_all() {
  try {
    for (auto& executor : executors_) executor->wait();
  } catch (const Stopped&) {
    // Join every lane before the error travels up: tasks may still be in the middle of memory that the caller owns.
    executors_.clear();
    std::rethrow_exception(stop_.error());
  }
}

}  // namespace zeroplan::runtime
