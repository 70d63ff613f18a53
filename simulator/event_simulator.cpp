#include "simulator/event_simulator.h"

#include <algorithm>
#include <cmath>

#include "simulator/lane_engine.h"
#include "simulator/memory_timeline.h"
#include "simulator/step_graph.h"

namespace zeroplan::simulator {
namespace {

using planner::Lane;
using planner::Plan;
using planner::RunRecord;
using planner::Tier;

/// Cycles to simulate at first: one to start up, two to compare, one that follows the one looked at.
constexpr std::size_t kFewCycles = 4;
/// And if the periods of the middle two still differ by more than this.
constexpr std::size_t kManyCycles = 12;
constexpr double kSteady = 1e-6;

/// When the compute lane ended a micro-step; steps without compute tasks end with their last task.
double compute_end(const StepGraph& graph, const InstanceTimes& instance) {
  const auto& lanes = graph.steps[instance.step].lanes;
  const auto& compute = lanes[static_cast<std::size_t>(Lane::kCompute)];
  if (!compute.empty()) return instance.end[compute.back()];
  double end = 0;
  for (const double e : instance.end) end = std::max(end, e);
  return end;
}

/// Instances [first, first + count) are the cycle that is looked at.
struct Window {
  std::size_t first = 0;
  std::size_t count = 0;
  double begin_s = 0;
  double end_s = 0;
};

Window window_of(const StepGraph& graph, const std::vector<InstanceTimes>& instances, std::size_t cycle) {
  Window window;
  window.count = graph.cycle.size();
  window.first = cycle * window.count;
  window.begin_s = window.first == 0 ? 0 : compute_end(graph, instances[window.first - 1]);
  window.end_s = compute_end(graph, instances[window.first + window.count - 1]);
  return window;
}

/// How often a micro-step of the simulated cycle stands for one of the real cycle: the last middle step for those left
/// out too.
double multiplicity(const StepGraph& graph, std::size_t micro_step) {
  const bool is_last_middle = graph.left_out > 0 && micro_step + 2 == graph.cycle.size();
  return is_last_middle ? 1.0 + static_cast<double>(graph.left_out) : 1.0;
}

void add_lanes(RunRecord& record, const Plan& plan, const StepGraph& graph, const std::vector<InstanceTimes>& instances,
               const Window& window) {
  for (std::size_t m = 0; m < window.count; ++m) {
    const InstanceTimes& instance = instances[window.first + m];
    const SimulatedStep& step = graph.steps[instance.step];
    const double times = multiplicity(graph, m);
    const auto count = static_cast<std::uint64_t>(times);
    record.exposed_comm += Seconds(instance.exposed_comm * times);
    planner::MovedBytes moved;
    for (std::size_t t = 0; t < step.tasks.size(); ++t) {
      planner::LaneRecord& lane = record.lanes[step.tasks[t].lane];
      lane.busy += Seconds((instance.end[t] - instance.start[t]) * times);
      lane.tasks += count;
      planner::count_moved(plan, plan.steps[step.step].tasks[t], moved);
    }
    record.moved.gather += moved.gather * count;
    record.moved.reduce += moved.reduce * count;
    record.moved.h2d += moved.h2d * count;
    record.moved.d2h += moved.d2h * count;
    record.moved.disk_read += moved.disk_read * count;
    record.moved.disk_write += moved.disk_write * count;
  }
}

double step_time(const StepGraph& graph, const std::vector<InstanceTimes>& instances, const Window& window) {
  double time = window.end_s - window.begin_s;
  if (graph.left_out > 0) {
    const std::size_t last_middle = window.first + window.count - 2;
    time += static_cast<double>(graph.left_out) *
            (compute_end(graph, instances[last_middle]) - compute_end(graph, instances[last_middle - 1]));
  }
  return time;
}

std::vector<TimelineTask> timeline(const StepGraph& graph, const std::vector<InstanceTimes>& instances,
                                   const Window& window) {
  std::vector<TimelineTask> tasks;
  for (std::size_t m = 0; m < window.count; ++m) {
    const InstanceTimes& instance = instances[window.first + m];
    for (std::uint32_t t = 0; t < instance.start.size(); ++t) {
      tasks.push_back({graph.steps[instance.step].step, static_cast<std::uint32_t>(m), t,
                       instance.start[t] - window.begin_s, instance.end[t] - window.begin_s});
    }
  }
  return tasks;
}

}  // namespace

Simulation simulate(const Plan& plan, const planner::CostModel& costs, const SimulationOptions& options) {
  const StepGraph graph = make_step_graph(plan, costs, {options.without_address_waits});
  std::size_t cycles = kFewCycles;
  LaneEngine engine(graph, costs, cycles);
  engine.run();
  const auto period = [&](std::size_t cycle) {
    const Window w = window_of(graph, engine.instances(), cycle);
    return w.end_s - w.begin_s;
  };
  if (std::abs(period(cycles - 2) - period(cycles - 3)) > kSteady * period(cycles - 2)) {
    cycles = kManyCycles;
    engine = LaneEngine(graph, costs, cycles);
    engine.run();
  }
  const std::vector<InstanceTimes>& instances = engine.instances();
  const Window window = window_of(graph, instances, cycles - 2);

  Simulation result;
  RunRecord& record = result.record;
  record.source = planner::RecordSource::kSimulated;
  record.gpus = plan.training.gpus;
  record.step = Seconds(step_time(graph, instances, window));
  if (record.step.value() > 0)
    record.tokens_per_s = static_cast<double>(plan.tokens_per_update()) / record.step.value();
  if (options.time_only) return result;
  add_lanes(record, plan, graph, instances, window);
  for (const auto& [tier, name] : planner::kNamesOf<Tier>) {
    MemoryTimeline memory = memory_timeline(plan, graph, instances, tier, options.keeps_timeline, window.begin_s);
    record.tier(tier) = std::move(memory.record);
    for (const MemorySample& sample : memory.samples) {
      if (sample.at_s >= 0 && sample.at_s <= window.end_s - window.begin_s) result.memory.push_back(sample);
    }
  }
  if (options.keeps_timeline) result.tasks = timeline(graph, instances, window);
  return result;
}

}  // namespace zeroplan::simulator
