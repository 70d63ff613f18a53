// Collectives of ranks that share one device: copies, and sums in rank order. Depends on device_tasks.
#pragma once

#include "runtime/device/device_tasks.h"

namespace zeroplan::runtime {

/// The body of a kGather or kReduce for all ranks at once. Sums run over the ranks in order 0 ... size - 1 in fp32, as
/// on the CPU. \throws Error{kInvalidInput, kUnsupported}
std::unique_ptr<DeviceTask> make_device_collective(const DeviceContext& context, const planner::Task& task);

}  // namespace zeroplan::runtime
