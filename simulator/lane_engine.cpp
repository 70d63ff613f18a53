#include "simulator/lane_engine.h"

#include <algorithm>
#include <limits>

namespace zeroplan::simulator {
namespace {

constexpr std::size_t kCompute = static_cast<std::size_t>(planner::Lane::kCompute);
constexpr std::size_t kGather = static_cast<std::size_t>(planner::Lane::kGather);
constexpr std::size_t kReduce = static_cast<std::size_t>(planner::Lane::kReduce);
/// Remaining work below this fraction of the clock counts as done: rounding of sums of durations.
constexpr double kRounding = 1e-13;

}  // namespace

LaneEngine::LaneEngine(const StepGraph& graph, const planner::CostModel& costs, std::size_t cycles) : graph_(&graph) {
  instances_.reserve(cycles * graph.cycle.size());
  for (std::size_t c = 0; c < cycles; ++c) {
    for (const std::uint32_t step : graph.cycle) {
      InstanceTimes instance;
      instance.step = step;
      instance.start.assign(graph.steps[step].tasks.size(), -1);
      instance.end.assign(graph.steps[step].tasks.size(), -1);
      instances_.push_back(std::move(instance));
    }
  }
  cores_ = costs.cores_per_rank();
  lane_switch_ = costs.lane_switch().value();
  for (std::size_t lane = 0; lane < planner::kLaneCount; ++lane) {
    lanes_[lane].cores = costs.cores_used(static_cast<planner::Lane>(lane));
    skip_finished_steps(lane);
  }
}

std::uint32_t LaneEngine::task_of(std::size_t lane) const {
  return step_of(lanes_[lane].instance).lanes[lane][lanes_[lane].index];
}

void LaneEngine::skip_finished_steps(std::size_t lane) {
  LaneState& state = lanes_[lane];
  while (state.instance < instances_.size() && state.index >= step_of(state.instance).lanes[lane].size()) {
    ++state.instance;
    state.index = 0;
  }
  if (state.instance >= instances_.size()) state.state = State::kDone;
}

void LaneEngine::examine(std::size_t lane) {
  LaneState& state = lanes_[lane];
  const std::uint32_t position = task_of(lane);
  const SimulatedStep& step = step_of(state.instance);
  const SimulatedTask& task = step.tasks[position];
  const std::vector<double>& ends = instances_[state.instance].end;
  double ready = now_;
  const auto wait_for = [&](double end, std::uint8_t other) {
    if (end < 0) return false;
    if (other != lane) ready = std::max(ready, end + lane_switch_);
    return true;
  };
  for (std::uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w) {
    if (!wait_for(ends[step.waits[w]], step.tasks[step.waits[w]].lane)) return;
  }
  if (state.instance > 0) {
    const InstanceTimes& before = instances_[state.instance - 1];
    const std::vector<PreviousWait>& waits = step.waits_previous[before.step];
    auto it = std::lower_bound(waits.begin(), waits.end(), position,
                               [](const PreviousWait& wait, std::uint32_t wanted) { return wait.task < wanted; });
    for (; it != waits.end() && it->task == position; ++it) {
      if (!wait_for(before.end[it->previous], graph_->steps[before.step].tasks[it->previous].lane)) return;
    }
  }
  state.state = State::kReady;
  state.ready_at = ready;
}

bool LaneEngine::start_ready() {
  bool any = false;
  for (std::size_t lane = 0; lane < planner::kLaneCount; ++lane) {
    LaneState& state = lanes_[lane];
    if (state.state == State::kBlocked) examine(lane);
    if (state.state != State::kReady || state.ready_at > now_) continue;
    const std::uint32_t position = task_of(lane);
    state.state = State::kRunning;
    state.left = step_of(state.instance).tasks[position].work_s;
    instances_[state.instance].start[position] = now_;
    any = true;
  }
  return any;
}

double LaneEngine::speed() const {
  if (cores_ == 0) return 1;
  double wanted = 0;
  for (const LaneState& state : lanes_) {
    if (state.state == State::kRunning) wanted += state.cores;
  }
  return wanted > cores_ ? cores_ / wanted : 1;
}

void LaneEngine::advance(double until, double speed) {
  const double elapsed = until - now_;
  const bool communicates = lanes_[kGather].state == State::kRunning || lanes_[kReduce].state == State::kRunning;
  LaneState& compute = lanes_[kCompute];
  if (communicates && compute.state != State::kRunning && compute.state != State::kDone) {
    instances_[compute.instance].exposed_comm += elapsed;
  }
  for (LaneState& state : lanes_) {
    if (state.state == State::kRunning) state.left -= elapsed * speed;
  }
  now_ = until;
}

void LaneEngine::finish_due() {
  const double nothing = (1 + now_) * kRounding;
  for (std::size_t lane = 0; lane < planner::kLaneCount; ++lane) {
    LaneState& state = lanes_[lane];
    if (state.state != State::kRunning || state.left > nothing) continue;
    instances_[state.instance].end[task_of(lane)] = now_;
    ++state.index;
    state.state = State::kBlocked;
    skip_finished_steps(lane);
  }
}

void LaneEngine::run() {
  while (true) {
    start_ready();
    const double rate = speed();
    double next = std::numeric_limits<double>::infinity();
    bool all_done = true;
    for (const LaneState& state : lanes_) {
      if (state.state == State::kRunning) next = std::min(next, now_ + std::max(state.left, 0.0) / rate);
      if (state.state == State::kReady) next = std::min(next, state.ready_at);
      all_done = all_done && state.state == State::kDone;
    }
    if (all_done) return;
    if (next == std::numeric_limits<double>::infinity()) {
      throw Error(ErrorCode::kInvalidInput, "tasks of the plan wait for one another in a circle: no lane can go on")
          .at({.key = "steps"});
    }
    advance(next, rate);
    finish_due();
  }
}

}  // namespace zeroplan::simulator
