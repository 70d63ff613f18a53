#include "runtime/lanes.h"

#include <chrono>

#include "runtime/step_scope.h"

namespace zeroplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double elapsed_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_comm(std::uint32_t lane) {
  return lane == static_cast<std::uint32_t>(planner::Lane::kGather) ||
         lane == static_cast<std::uint32_t>(planner::Lane::kReduce);
}

}  // namespace

Lanes::Lanes(const planner::Plan& plan, const TaskOrder& order, std::vector<std::vector<TaskBody*>> bodies,
             StopSignal& stop)
    : order_(order), stop_(stop), entries_(plan.steps.size()) {
  for (const planner::Lane lane : plan.lanes) active_.push_back(static_cast<std::size_t>(lane));
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    for (std::size_t t = 0; t < plan.steps[s].tasks.size(); ++t) {
      const auto lane = static_cast<std::size_t>(plan.steps[s].tasks[t].lane);
      entries_[s][lane].push_back({bodies[s][t], &order.steps[s].waits[t]});
    }
  }
  for (Timeline& timeline : ended_) stop.add(timeline);
  stop.add(commands_);
  stop.add(done_);
  for (const std::size_t lane : active_) threads_.emplace_back([this, lane] { serve(lane); });
}

Lanes::~Lanes() {
  quits_ = true;
  commands_.advance();
  threads_.clear();
}

void Lanes::start() {
  for (std::size_t lane = 0; lane < planner::kLaneCount; ++lane) start_base_[lane] = ended_[lane].value();
  ++commands_given_;
  commands_.advance();
}

void Lanes::start_phase(std::size_t step, const StepPosition& position) {
  phase_ = step;
  phase_position_ = position;
  gate_ = nullptr;
  start();
}

void Lanes::start_updates(std::uint64_t first_update, const UpdateGate& gate) {
  first_update_ = first_update;
  gate_ = &gate;
  start();
}

void Lanes::wait() {
  const bool is_whole = done_.wait(commands_given_ * active_.size());
  if (is_whole) return;
  // After a failure every lane leaves its run; only then may its memory go away. The destructor joins.
  throw Stopped();
}

void Lanes::serve(std::size_t lane) {
  for (std::uint64_t seen = 1; commands_.wait(seen); ++seen) {
    if (quits_) return;
    try {
      cursors_[lane].base = start_base_;
      if (gate_ == nullptr) {
        run_phase(lane);
      } else {
        run_updates(lane);
      }
    } catch (const Stopped&) {
      return;
    } catch (...) {
      stop_.raise(std::current_exception());
      return;
    }
    done_.advance();
  }
}

void Lanes::run_phase(std::size_t lane) {
  LaneTotals unused;
  run_step(lane, phase_, phase_position_, nullptr, unused);
}

void Lanes::run_updates(std::size_t lane) {
  const std::size_t* previous = nullptr;
  totals_[lane] = {};
  for (std::uint64_t number = 0; gate_->admits(number); ++number) {
    const TrainingStepScope scope;
    LaneTotals& totals = number == 0 ? totals_[lane].first : totals_[lane].later;
    for (std::size_t micro = 0; micro < order_.cycle.size(); ++micro) {
      run_step(lane, order_.cycle[micro], {first_update_ + number, micro}, previous, totals);
      previous = &order_.cycle[micro];
    }
    ++totals.updates;
  }
  stop_.check();
}

void Lanes::run_step(std::size_t lane, std::size_t step, const StepPosition& position, const std::size_t* previous,
                     LaneTotals& totals) {
  Cursor& cursor = cursors_[lane];
  for (const Entry& entry : entries_[step][lane]) {
    for (const WaitPoint& point : entry.waits->same_step) wait_for(point, cursor.base, totals);
    if (previous != nullptr) {
      for (const WaitPoint& point : entry.waits->previous[*previous]) wait_for(point, cursor.previous, totals);
    }
    stop_.check();
    const Clock::time_point start = Clock::now();
    entry.body->run(position);
    totals.busy_s += elapsed_since(start);
    ++totals.tasks;
    ended_[lane].advance();
  }
  cursor.previous = cursor.base;
  advance_base(step, cursor.base);
}

void Lanes::wait_for(const WaitPoint& point, const Base& base, LaneTotals& totals) const {
  const Timeline& timeline = ended_[point.lane];
  const std::uint64_t target = base[point.lane] + point.count;
  if (timeline.value() >= target) {
    if (timeline.interrupted()) throw Stopped();
    return;
  }
  const Clock::time_point start = Clock::now();
  if (!timeline.wait(target)) throw Stopped();
  if (is_comm(point.lane)) totals.comm_wait_s += elapsed_since(start);
}

void Lanes::advance_base(std::size_t step, Base& base) const {
  for (std::size_t lane = 0; lane < planner::kLaneCount; ++lane) base[lane] += order_.steps[step].tasks_of_lane[lane];
}

}  // namespace zeroplan::runtime
