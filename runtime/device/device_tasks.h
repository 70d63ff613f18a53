// What each kind of task does on a device. Purpose: planned work as calls that a stream takes, for all ranks that share
// the device at once. Main types: DeviceRank, DeviceTask, make_device_task. Depends on planner/plan, kernels/device and
// the resolution of addresses that the CPU's tasks use too.
#pragma once

#include <memory>
#include <vector>

#include "kernels/device.h"
#include "runtime/task_bodies.h"

namespace zeroplan::runtime {

/// One of the ranks that share a device.
struct DeviceRank {
  std::uint64_t rank = 0;
  std::unique_ptr<Arenas> arenas;
  std::unique_ptr<TaskHooks> hooks;
  kernels::StepScalars scalars;  ///< the host's copy: as the last update left them
};

/// What the tasks of all ranks share; outlives them.
struct DeviceContext {
  const planner::Plan& plan;
  kernels::Device& device;
  std::vector<DeviceRank>& ranks;
};

/// A task of all ranks.
class DeviceTask {
 public:
  virtual ~DeviceTask() = default;
  /// The host's part, before any task of the update is enqueued: input tasks write the next micro-batch.
  virtual void prepare(const StepPosition&) {}
  /// The device's part. Tasks of init and save may wait for the stream.
  virtual void enqueue(kernels::DeviceStream& stream, const StepPosition& position) = 0;
  /// The host's part, once all tasks of the update up to this one have ended: the end of the norm takes the scalars.
  virtual void finish(const StepPosition&) {}
};

/// Calls of every rank, in order.
class DeviceCalls final : public DeviceTask {
 public:
  void enqueue(kernels::DeviceStream& stream, const StepPosition& position) override;

  /// Bytes set to zero before the calls.
  std::vector<ClearedRange> clears;
  std::vector<kernels::DeviceCall> calls;
};

/// \throws Error{kInvalidInput, kUnsupported}; with the number of bytes to plan if a kernel asks for more scratch
std::unique_ptr<DeviceTask> make_device_task(const DeviceContext& context, const planner::Step& step,
                                             const planner::Task& task);

/// Likewise for kUpdate, kMoments, kTensorNorms and kTrustRatios.
std::unique_ptr<DeviceTask> make_device_update(const DeviceContext& context, const planner::Task& task);

/// Asks the device for algorithms, and compares its scratch with the plan's.
void prepare_call(const DeviceContext& context, const std::string& what, const kernels::DeviceCall& call);

/// Copies of every rank's own part of a table [rank][bytes_of_rank] into all other ranks' tables.
std::unique_ptr<DeviceTask> make_table_gather(const std::vector<std::byte*>& tables, std::size_t bytes_of_rank);

/// States of a group one by one, through memory of the host: calls `use` with each, and copies before or after.
class GroupStaging {
 public:
  explicit GroupStaging(planner::BufferId staging) : staging_(staging) {}
  /// `use` writes what `group` keeps on the device of `rank`.
  void write(const DeviceRank& rank, const GroupState& group, kernels::DeviceStream& stream,
             const std::function<void(const GroupState&)>& use) const;
  /// `use` reads it.
  void read(const DeviceRank& rank, const GroupState& group, kernels::DeviceStream& stream,
            const std::function<void(const GroupState&)>& use) const;

 private:
  enum class Direction { kToDevice, kFromDevice };
  void each_state(const DeviceRank& rank, const GroupState& group, kernels::DeviceStream& stream, Direction direction,
                  const std::function<void(const GroupState&)>& use) const;

  planner::BufferId staging_;
};

}  // namespace zeroplan::runtime
