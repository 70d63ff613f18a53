#include "runtime/device/device_streams.h"

#include <fmt/format.h>

namespace zeroplan::runtime {
namespace {

using planner::Lane;

constexpr auto kComputeLane = static_cast<std::size_t>(Lane::kCompute);

std::size_t lane_index(const planner::Task& task) {
  return static_cast<std::size_t>(task.lane);
}

}  // namespace

DeviceProgram::DeviceProgram(const DeviceContext& context) : context_(context), order_(context.plan) {
  const planner::Plan& plan = context.plan;
  for (const Lane lane : plan.lanes) {
    const auto l = static_cast<std::size_t>(lane);
    streams_[l] = context.device.make_stream();
    joined_[l] = context.device.make_event(false);
  }
  ended_.resize(plan.steps.size());
  positions_.resize(plan.steps.size());
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    auto& tasks = tasks_.emplace_back();
    auto& places = places_.emplace_back();
    for (std::size_t l = 0; l < planner::kLaneCount; ++l) ended_[s][l].resize(order_.steps[s].tasks_of_lane[l]);
    std::array<std::size_t, planner::kLaneCount> counts = {};
    for (const planner::Task& task : plan.steps[s].tasks) {
      if (streams_[lane_index(task)] == nullptr) {
        throw Error(ErrorCode::kInvalidInput, fmt::format("task {} is on a lane that the plan lacks", task.key));
      }
      try {
        tasks.push_back(make_device_task(context, plan.steps[s], task));
      } catch (Error& error) {
        error.with(fmt::format("in task {}", task.key));
        throw;
      }
      places.push_back(counts[lane_index(task)]++);
      positions_[s][lane_index(task)].push_back(tasks.size() - 1);
    }
    has_run_.emplace_back(tasks.size(), false);
  }
  // An event where some task of another lane waits.
  const auto need = [&](std::size_t step, const WaitPoint& point) {
    auto& event = ended_[step][point.lane].at(point.count - 1);
    if (event == nullptr) event = context.device.make_event(false);
  };
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    for (const TaskWaits& waits : order_.steps[s].waits) {
      for (const WaitPoint& point : waits.same_step) need(s, point);
      for (std::size_t before = 0; before < waits.previous.size(); ++before) {
        for (const WaitPoint& point : waits.previous[before]) need(before, point);
      }
    }
  }
}

void DeviceProgram::enqueue(const std::vector<TaskRange>& segment, std::uint64_t update) {
  fork();
  for (std::size_t r = 0; r < segment.size(); ++r) {
    // What came before the segment has ended for all lanes.
    const TaskRange* previous = r > 0 && segment[r].first == 0 ? &segment[r - 1] : nullptr;
    for (std::size_t t = segment[r].first; t < segment[r].last; ++t) enqueue_task(segment[r], t, previous, update);
  }
  join();
}

void DeviceProgram::enqueue_task(const TaskRange& range, std::size_t position, const TaskRange* previous,
                                 std::uint64_t update) {
  const std::size_t lane = lane_index(context_.plan.steps[range.step].tasks[position]);
  kernels::DeviceStream& stream = *streams_[lane];
  const TaskWaits& waits = order_.steps[range.step].waits[position];
  for (const WaitPoint& point : waits.same_step) {
    // Tasks before the segment have ended before it began.
    if (positions_[range.step][point.lane].at(point.count - 1) >= range.first) wait_for(stream, range.step, point);
  }
  if (previous != nullptr) {
    for (const WaitPoint& point : waits.previous[previous->step]) wait_for(stream, previous->step, point);
  }
  Timed timed;
  if (is_timing_) {
    timed = {lane, context_.device.make_event(true), context_.device.make_event(true)};
    stream.record(*timed.start);
  }
  try {
    tasks_[range.step][position]->enqueue(stream, {update, range.micro_step});
  } catch (Error& error) {
    error.with(fmt::format("in task {}", context_.plan.steps[range.step].tasks[position].key));
    throw;
  }
  if (is_timing_) {
    stream.record(*timed.end);
    timed_.push_back(std::move(timed));
  }
  has_run_[range.step][position] = true;
  if (const auto& event = ended_[range.step][lane][places_[range.step][position]]) stream.record(*event);
}

void DeviceProgram::wait_for(kernels::DeviceStream& stream, std::size_t step, const WaitPoint& point) {
  stream.wait(*ended_[step][point.lane].at(point.count - 1));
}

void DeviceProgram::fork() {
  streams_[kComputeLane]->record(*joined_[kComputeLane]);
  for (std::size_t l = 0; l < streams_.size(); ++l) {
    if (l != kComputeLane && streams_[l] != nullptr) streams_[l]->wait(*joined_[kComputeLane]);
  }
}

void DeviceProgram::join() {
  for (std::size_t l = 0; l < streams_.size(); ++l) {
    if (l == kComputeLane || streams_[l] == nullptr) continue;
    streams_[l]->record(*joined_[l]);
    streams_[kComputeLane]->wait(*joined_[l]);
  }
}

std::unique_ptr<kernels::DeviceGraph> DeviceProgram::capture(const std::vector<TaskRange>& segment) {
  streams_[kComputeLane]->begin_capture();
  enqueue(segment, 0);
  return streams_[kComputeLane]->end_capture();
}

void DeviceProgram::synchronize() {
  for (const auto& stream : streams_) {
    if (stream != nullptr) stream->synchronize();
  }
}

void DeviceProgram::start_timing() {
  timed_.clear();
  is_timing_ = true;
}

std::array<double, planner::kLaneCount> DeviceProgram::lane_seconds() {
  is_timing_ = false;
  synchronize();
  std::array<double, planner::kLaneCount> seconds = {};
  for (const Timed& timed : timed_) seconds[timed.lane] += timed.end->seconds_since(*timed.start);
  timed_.clear();
  return seconds;
}

}  // namespace zeroplan::runtime
