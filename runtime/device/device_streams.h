// The lanes of a plan as streams of a device. Purpose: waits between lanes become events, so that the host enqueues a
// whole update without waiting for anything. Main types: DeviceProgram. Depends on task_order and device_tasks.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/device/device_tasks.h"
#include "runtime/task_order.h"

namespace zeroplan::runtime {

/// Tasks [first, last) of one training step of an update, or of a phase.
struct TaskRange {
  std::size_t step = 0;
  std::uint64_t micro_step = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

/// All tasks of all ranks of a device, one stream a lane. Between two segments all lanes meet; within one, lanes wait
/// for each other only where the plan says so.
class DeviceProgram {
 public:
  /// Resolves and prepares every task. \throws Error{kInvalidInput, kUnsupported, kDevice}
  explicit DeviceProgram(const DeviceContext& context);

  const TaskOrder& order() const { return order_; }
  DeviceTask& task(std::size_t step, std::size_t position) { return *tasks_.at(step).at(position); }
  kernels::DeviceStream& stream(planner::Lane lane) { return *streams_[static_cast<std::size_t>(lane)]; }

  /// Enqueues some ranges as one segment, in plan order.
  void enqueue(const std::vector<TaskRange>& segment, std::uint64_t update);
  /// The same, kept as a graph that `stream(kCompute)` launches.
  std::unique_ptr<kernels::DeviceGraph> capture(const std::vector<TaskRange>& segment);
  /// Waits for all streams.
  void synchronize();

  /// Times the tasks of the segments enqueued from now on, until `lane_seconds` is asked.
  void start_timing();
  /// Of all timed tasks, by lane; waits for the device.
  std::array<double, planner::kLaneCount> lane_seconds();

  /// Whether a task was ever enqueued.
  bool has_run(std::size_t step, std::size_t position) const { return has_run_[step][position]; }

 private:
  struct Timed {
    std::size_t lane = 0;
    std::unique_ptr<kernels::DeviceEvent> start;
    std::unique_ptr<kernels::DeviceEvent> end;
  };

  void enqueue_task(const TaskRange& range, std::size_t position, const TaskRange* previous, std::uint64_t update);
  void wait_for(kernels::DeviceStream& stream, std::size_t step, const WaitPoint& point);
  void fork();
  void join();

  const DeviceContext& context_;
  TaskOrder order_;
  std::vector<std::vector<std::unique_ptr<DeviceTask>>> tasks_;  ///< by step and position
  std::vector<std::vector<bool>> has_run_;
  /// By step, lane and place on the lane: recorded after the task, where another lane waits for it.
  std::vector<std::array<std::vector<std::unique_ptr<kernels::DeviceEvent>>, planner::kLaneCount>> ended_;
  std::vector<std::vector<std::size_t>> places_;  ///< by step and position: place on its lane
  std::vector<std::array<std::vector<std::size_t>, planner::kLaneCount>> positions_;  ///< by step, lane and place
  std::array<std::unique_ptr<kernels::DeviceStream>, planner::kLaneCount> streams_;
  std::array<std::unique_ptr<kernels::DeviceEvent>, planner::kLaneCount> joined_;
  bool is_timing_ = false;
  std::vector<Timed> timed_;
};

}  // namespace zeroplan::runtime
