#include "planner/happens_before.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace zeroplan::planner {

TaskRun::TaskRun(std::vector<const Step*> steps) : steps_(std::move(steps)) {
  last_on_lane_.fill(-1);
  std::size_t total = 0;
  for (const Step* step : steps_) total += step->tasks.size();
  graph_ = TaskGraph(total);
  instances_.reserve(total);
  for (std::uint32_t s = 0; s < steps_.size(); ++s) add_step(s);
  compute_clocks();
}

void TaskRun::add_step(std::uint32_t number) {
  const Step& step = *steps_[number];
  const std::size_t begin = instances_.size();
  std::unordered_map<std::string_view, std::size_t> previous_by_key;
  const bool needs_keys =
      std::any_of(step.tasks.begin(), step.tasks.end(), [](const Task& t) { return !t.waits_previous.empty(); });
  if (needs_keys) {
    for (std::size_t i = previous_begin_; i < previous_end_; ++i) previous_by_key.emplace(instances_[i].task->key, i);
  }
  for (const Task& task : step.tasks) {
    const std::size_t self = instances_.size();
    auto& last = last_on_lane_[static_cast<std::size_t>(task.lane)];
    if (last >= 0) boost::add_edge(static_cast<std::size_t>(last), self, graph_);
    last = static_cast<std::int64_t>(self);
    for (const TaskId wait : task.waits) {
      const auto found = std::lower_bound(step.tasks.begin(), step.tasks.end(), wait,
                                          [](const Task& t, TaskId id) { return t.id < id; });
      const auto index = static_cast<std::size_t>(found - step.tasks.begin());
      if (found == step.tasks.end() || found->id != wait || begin + index >= self) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("task {} waits for {}, which is no earlier task of step {}", task.id, wait, step.name));
      }
      boost::add_edge(begin + index, self, graph_);
    }
    for (const std::string& key : task.waits_previous) {
      const auto found = previous_by_key.find(key);
      if (found != previous_by_key.end()) boost::add_edge(found->second, self, graph_);
    }
    instances_.push_back({number, &task});
  }
  previous_begin_ = begin;
  previous_end_ = instances_.size();
}

void TaskRun::compute_clocks() {
  places_.resize(instances_.size());
  clocks_.resize(instances_.size());
  LaneClock on_lane{};
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    LaneClock clock{};
    const auto [begin, end] = boost::in_edges(i, graph_);
    for (auto edge = begin; edge != end; ++edge) {
      const LaneClock& before = clocks_[boost::source(*edge, graph_)];
      for (std::size_t lane = 0; lane < kLaneCount; ++lane) clock[lane] = std::max(clock[lane], before[lane]);
    }
    const auto lane = static_cast<std::size_t>(instances_[i].task->lane);
    places_[i] = clock[lane] = ++on_lane[lane];
    clocks_[i] = clock;
  }
}

std::vector<std::vector<const Step*>> run_sequences(const Plan& plan) {
  std::vector<std::vector<const Step*>> runs;
  std::vector<const Step*> cycle;
  for (const Step& step : plan.steps) {
    if (!step.is_training()) {
      runs.push_back({&step});
      continue;
    }
    cycle.push_back(&step);
    if (step.name == "middle" && plan.strategy.accumulation > 3) cycle.push_back(&step);
  }
  if (!cycle.empty()) {
    std::vector<const Step*> twice = cycle;
    twice.insert(twice.end(), cycle.begin(), cycle.end());
    runs.push_back(std::move(twice));
  }
  return runs;
}

}  // namespace zeroplan::planner
