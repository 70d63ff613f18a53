#include "runtime/task_order.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace zeroplan::runtime {
namespace {

using planner::Plan;
using planner::Step;
using planner::Task;

/// Where a task stands.
using Places = std::map<std::string_view, WaitPoint>;

std::uint32_t lane_of(const Task& task) {
  return static_cast<std::uint32_t>(task.lane);
}

/// Keeps the latest point of each lane.
void add_point(std::vector<WaitPoint>& points, const WaitPoint& point) {
  for (WaitPoint& known : points) {
    if (known.lane != point.lane) continue;
    known.count = std::max(known.count, point.count);
    return;
  }
  points.push_back(point);
}

Places places_of(const Step& step) {
  LaneCounts counts = {};
  Places places;
  for (const Task& task : step.tasks) places[task.key] = {lane_of(task), ++counts[lane_of(task)]};
  return places;
}

StepOrder order_of(const Plan& plan, const Step& step, const std::vector<Places>& places) {
  StepOrder order;
  std::map<planner::TaskId, WaitPoint> earlier;
  for (const Task& task : step.tasks) {
    const std::uint32_t lane = lane_of(task);
    TaskWaits waits;
    for (const planner::TaskId id : task.waits) {
      const auto found = earlier.find(id);
      if (found == earlier.end()) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("step {}: task {} waits for {}, which is no earlier task of the step", step.name,
                                task.key, id));
      }
      if (found->second.lane != lane) add_point(waits.same_step, found->second);
    }
    if (step.is_training()) {
      waits.previous.resize(plan.steps.size());
      for (std::size_t before = 0; before < plan.steps.size(); ++before) {
        if (!plan.steps[before].is_training()) continue;
        for (const std::string& key : task.waits_previous) {
          const auto found = places[before].find(key);
          if (found != places[before].end() && found->second.lane != lane)
            add_point(waits.previous[before], found->second);
        }
      }
    }
    earlier[task.id] = {lane, ++order.tasks_of_lane[lane]};
    order.waits.push_back(std::move(waits));
  }
  return order;
}

std::size_t index_of(const Plan& plan, std::string_view name) {
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].name == name) return s;
  }
  throw Error(ErrorCode::kInvalidInput, fmt::format("the plan has no step {}, expected one with accumulation {}", name,
                                                    plan.strategy.accumulation));
}

}  // namespace

TaskOrder::TaskOrder(const Plan& plan) {
  std::vector<Places> places;
  for (const Step& step : plan.steps) places.push_back(places_of(step));
  for (const Step& step : plan.steps) steps.push_back(order_of(plan, step, places));
  const std::uint64_t passes = plan.strategy.accumulation;
  if (passes == 1) {
    cycle.push_back(index_of(plan, "only"));
    return;
  }
  cycle.push_back(index_of(plan, "first"));
  for (std::uint64_t pass = 2; pass < passes; ++pass) cycle.push_back(index_of(plan, "middle"));
  cycle.push_back(index_of(plan, "last"));
}

}  // namespace zeroplan::runtime
