#include "simulator/step_graph.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

namespace zeroplan::simulator {
namespace {

using planner::Access;
using planner::Plan;
using planner::Step;
using planner::Task;

/// Middle steps that are simulated: the second and third are in the steady state; more repeat the third.
constexpr std::uint64_t kMostMiddleSteps = 3;

bool overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/// What two accesses have in common.
enum class Common { kNothing, kAddresses, kBuffer };

Common common(const Plan& plan, const Access& a, const Access& b) {
  const planner::Buffer& x = plan.buffers.at(a.buffer);
  const planner::Buffer& y = plan.buffers.at(b.buffer);
  if (x.tier != y.tier) return Common::kNothing;
  if (!overlap(x.offset.count() + a.offset.count(), a.bytes.count(), y.offset.count() + b.offset.count(),
               b.bytes.count())) {
    return Common::kNothing;
  }
  return a.buffer == b.buffer ? Common::kBuffer : Common::kAddresses;
}

/// True if the two conflict (one writes what the other reads or writes) through different buffers and through no buffer
/// of both.
bool conflict_by_address_alone(const Plan& plan, const Task& a, const Task& b) {
  bool shares_addresses = false;
  bool shares_buffer = false;
  const auto look = [&](const std::vector<Access>& left, const std::vector<Access>& right) {
    for (const Access& x : left) {
      for (const Access& y : right) {
        const Common c = common(plan, x, y);
        shares_addresses = shares_addresses || c == Common::kAddresses;
        shares_buffer = shares_buffer || c == Common::kBuffer;
      }
    }
  };
  look(a.writes, b.writes);
  look(a.writes, b.reads);
  look(a.reads, b.writes);
  return shares_addresses && !shares_buffer;
}

std::uint32_t position_of(const Step& step, planner::TaskId id) {
  const auto found = std::lower_bound(step.tasks.begin(), step.tasks.end(), id,
                                      [](const Task& task, planner::TaskId wanted) { return task.id < wanted; });
  if (found == step.tasks.end() || found->id != id) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("step {}: a task waits for task {}, which is not in the step", step.name, id))
        .at({.key = "steps." + step.name, .value = std::to_string(id)});
  }
  return static_cast<std::uint32_t>(found - step.tasks.begin());
}

SimulatedStep make_step(const Plan& plan, std::uint32_t index, const planner::CostModel& costs,
                        std::vector<double>& program_times, const StepGraphOptions& options) {
  const Step& step = plan.steps[index];
  SimulatedStep result;
  result.step = index;
  result.lanes.resize(planner::kLaneCount);
  result.tasks.reserve(step.tasks.size());
  for (std::uint32_t position = 0; position < step.tasks.size(); ++position) {
    const Task& task = step.tasks[position];
    SimulatedTask simulated;
    simulated.lane = static_cast<std::uint8_t>(task.lane);
    if (task.program < program_times.size() && task.kind != planner::TaskKind::kInput) {
      if (program_times[task.program] < 0) program_times[task.program] = costs.task(plan, task).value();
      simulated.work_s = program_times[task.program];
    } else {
      simulated.work_s = costs.task(plan, task).value();
    }
    simulated.first_wait = static_cast<std::uint32_t>(result.waits.size());
    for (const planner::TaskId wait : task.waits) {
      const std::uint32_t other = position_of(step, wait);
      if (options.without_address_waits && conflict_by_address_alone(plan, task, step.tasks[other])) continue;
      result.waits.push_back(other);
    }
    simulated.waits = static_cast<std::uint32_t>(result.waits.size()) - simulated.first_wait;
    result.lanes[simulated.lane].push_back(position);
    result.tasks.push_back(simulated);
  }
  return result;
}

using Keys = std::unordered_map<std::string_view, std::uint32_t>;

/// The waits of `step` for tasks of `before`; keys that `before` lacks are no waits.
std::vector<PreviousWait> previous_waits(const Plan& plan, const Step& step, const Step& before, const Keys& keys,
                                         const StepGraphOptions& options) {
  std::vector<PreviousWait> waits;
  for (std::uint32_t position = 0; position < step.tasks.size(); ++position) {
    for (const std::string& key : step.tasks[position].waits_previous) {
      const auto found = keys.find(key);
      if (found == keys.end()) continue;
      if (options.without_address_waits &&
          conflict_by_address_alone(plan, step.tasks[position], before.tasks[found->second]))
        continue;
      waits.push_back({position, found->second});
    }
  }
  return waits;
}

}  // namespace

StepGraph make_step_graph(const Plan& plan, const planner::CostModel& costs, const StepGraphOptions& options) {
  StepGraph graph;
  std::vector<double> program_times(plan.programs.size(), -1);
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].is_training()) graph.steps.push_back(make_step(plan, i, costs, program_times, options));
  }
  if (graph.steps.empty() || graph.steps.size() > 3) {
    throw Error(ErrorCode::kInvalidInput, "the plan has no training steps, expected only, or first, middle and last")
        .at({.key = "steps"});
  }
  std::vector<Keys> keys(graph.steps.size());
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    const Step& step = plan.steps[graph.steps[s].step];
    for (std::uint32_t position = 0; position < step.tasks.size(); ++position)
      keys[s].emplace(step.tasks[position].key, position);
  }
  for (SimulatedStep& step : graph.steps) {
    for (std::size_t before = 0; before < graph.steps.size(); ++before) {
      step.waits_previous.push_back(
          previous_waits(plan, plan.steps[step.step], plan.steps[graph.steps[before].step], keys[before], options));
    }
  }
  const std::uint64_t passes = std::max<std::uint64_t>(plan.strategy.accumulation, 1);
  if (graph.steps.size() == 1) {
    graph.cycle = {0};
  } else if (graph.steps.size() == 2) {
    graph.cycle = {0, 1};
  } else {
    const std::uint64_t middle = passes > 2 ? passes - 2 : 1;
    graph.cycle.assign(1 + std::min(middle, kMostMiddleSteps), 1);
    graph.cycle.front() = 0;
    graph.cycle.push_back(2);
    graph.left_out = middle - std::min(middle, kMostMiddleSteps);
  }
  return graph;
}

}  // namespace zeroplan::simulator
