// What lies between kernels: loopback collectives, waking a lane, memory and disk. Depends on runtime/comm and
// runtime/timeline.
#pragma once

#include <filesystem>
#include <vector>

#include "planner/machine.h"
#include "runtime/calibration/measure_kernels.h"

namespace zeroplan::runtime {

/// "all_gather", "reduce_scatter", "all_reduce" by bytes of the whole buffer, and "exchange". One thread a rank.
std::vector<planner::OpPoint> measure_collectives(std::size_t ranks, DType dtype, std::uint64_t most_bytes,
                                                  const Effort& effort, const Progress& progress);

/// From the end of a task to the begin of one on a sleeping lane: the median of `repeats`.
Seconds measure_lane_switch(int repeats);

/// Bytes read and written per second by copies of `bytes` on all workers of the team's ranks together.
BytesPerSecond measure_memory(const RankTeam& team, std::uint64_t bytes);

/// Sequential rates of a file in `directory`, synced to the device; read back from the device where the system lets us
/// drop its cache. The file is removed.
struct DiskRates {
  BytesPerSecond read;
  BytesPerSecond write;
};
/// \throws Error{kIo}
DiskRates measure_disk(const std::filesystem::path& directory, std::uint64_t bytes);

}  // namespace zeroplan::runtime
