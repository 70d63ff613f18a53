#include "reports/perfetto.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroplan::reports {
namespace {

using planner::Lane;
using planner::Task;

constexpr int kProcess = 1;
constexpr double kMicrosecondsPerSecond = 1e6;

Json name_event(const char* what, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json task_event(const planner::Step& step, const Task& task, const simulator::TimelineTask& times, double origin_s) {
  return {{"ph", "X"},
          {"name", task.key},
          {"cat", planner::name_of(task.kind)},
          {"pid", kProcess},
          {"tid", static_cast<int>(task.lane)},
          {"ts", (times.start_s - origin_s) * kMicrosecondsPerSecond},
          {"dur", (times.end_s - times.start_s) * kMicrosecondsPerSecond},
          {"args", {{"step", step.name}, {"micro_step", times.micro_step}, {"task", task.id}}}};
}

}  // namespace

Json perfetto_trace(const planner::Plan& plan, const simulator::Simulation& simulation) {
  Json events = Json::array();
  events.push_back(name_event("process_name", 0,
                              fmt::format("{}, one of {} ranks (simulated)", plan.model.name, plan.training.gpus)));
  for (const Lane lane : plan.lanes) {
    events.push_back(name_event("thread_name", static_cast<int>(lane), std::string(planner::name_of(lane))));
  }
  // Tasks that ran ahead of the cycle begin before its origin; traces begin at 0.
  double origin_s = 0;
  for (const simulator::TimelineTask& times : simulation.tasks) origin_s = std::min(origin_s, times.start_s);
  for (const simulator::TimelineTask& times : simulation.tasks) {
    const planner::Step& step = plan.steps.at(times.step);
    events.push_back(task_event(step, step.tasks.at(times.position), times, origin_s));
  }
  for (const simulator::MemorySample& sample : simulation.memory) {
    events.push_back({{"ph", "C"},
                      {"name", fmt::format("{} bytes", planner::name_of(sample.tier))},
                      {"pid", kProcess},
                      {"ts", (sample.at_s - origin_s) * kMicrosecondsPerSecond},
                      {"args", {{"live", sample.live.count()}}}});
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace zeroplan::reports
