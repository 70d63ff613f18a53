#include "runtime/calibrate.h"

#include <algorithm>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "models/core/cores.h"
#include "runtime/calibration/measure_kernels.h"
#include "runtime/calibration/measure_system.h"

namespace zeroplan::runtime {
namespace {

using planner::Machine;
using planner::OpPoint;

/// How much is measured.
struct MeasuringEffort {
  Effort effort;
  Flops most_flops;
  std::uint64_t most_work;
  std::uint64_t most_collective_bytes;
  std::uint64_t memory_bytes;
  std::uint64_t disk_bytes;
  int switches;
  std::vector<DType> dtypes;
};

MeasuringEffort measuring_effort(bool quick) {
  if (quick) {
    return {{5, Seconds(5e-4)},      Flops(300'000'000),      1u << 19, 1u << 21,
            std::uint64_t{64} << 20, std::uint64_t{64} << 20, 51,       {DType::kFp32}};
  }
  return {{11, Seconds(2e-3)},      Flops(2'200'000'000),     1u << 22, 1u << 24,
          std::uint64_t{256} << 20, std::uint64_t{512} << 20, 201,      {DType::kFp32, DType::kBf16, DType::kFp16}};
}

/// The point with the most work; null if there is none.
const OpPoint* largest(const std::vector<OpPoint>& points, std::string_view op, std::uint64_t ranks) {
  const OpPoint* found = nullptr;
  for (const OpPoint& p : points) {
    if (p.op == op && p.dtype == DType::kFp32 && p.ranks == ranks && (found == nullptr || p.work > found->work))
      found = &p;
  }
  return found;
}

/// The figures that plans for other back ends and other readers know, from the measured points.
void summarise(Machine& machine) {
  for (const planner::GemmPoint& p : machine.rates.gemm) {
    if (p.ranks != 1) continue;
    FlopsPerSecond& peak = p.dtype == DType::kFp32 ? machine.rates.fp32_flops : machine.rates.bf16_flops;
    peak = std::max(peak, p.flops);
  }
  // The CPU kernels multiply in fp32 whatever the storage type.
  if (!machine.rates.bf16_flops.known()) machine.rates.bf16_flops = machine.rates.fp32_flops;
  if (const OpPoint* adam = largest(machine.rates.cpu_ops, "adamw", 1)) {
    machine.rates.host_adam_params = ElementsPerSecond(static_cast<double>(adam->work) / adam->time.value());
  }
  if (const OpPoint* gather = largest(machine.rates.cpu_ops, "all_gather", 2)) {
    machine.rates.link_bytes = BytesPerSecond(0.5 * static_cast<double>(gather->work) / gather->time.value());
  }
  if (const OpPoint* exchange = largest(machine.rates.cpu_ops, "exchange", 2))
    machine.latencies.collective = exchange->time;
}

}  // namespace

Machine calibrate(const CalibrateOptions& options) {
  const MeasuringEffort extent = measuring_effort(options.quick);
  const std::uint64_t cores = usable_cores();
  Machine machine;
  machine.name = "measured cpu";
  machine.cores = cores;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0)
    machine.host_bytes = Bytes(static_cast<std::uint64_t>(pages)) * static_cast<std::uint64_t>(page);
  const auto append = [](auto& to, auto points) { to.insert(to.end(), points.begin(), points.end()); };
  for (const std::uint64_t ranks : {1u, 2u}) {
    const RankTeam team(ranks, static_cast<int>(std::max<std::uint64_t>(cores / ranks, 1)), extent.effort);
    for (const DType dtype : extent.dtypes) {
      append(machine.rates.gemm, measure_gemm(team, dtype, extent.most_flops, options.progress));
      append(machine.rates.cpu_ops, measure_ops(team, dtype, extent.most_work, options.progress));
    }
    if (ranks == 1) machine.rates.device_bytes = machine.rates.host_bytes = measure_memory(team, extent.memory_bytes);
  }
  for (const std::size_t ranks : {1u, 2u, 4u}) {
    for (const DType dtype : extent.dtypes) {
      append(machine.rates.cpu_ops,
             measure_collectives(ranks, dtype, extent.most_collective_bytes, extent.effort, options.progress));
    }
  }
  machine.latencies.task = measure_lane_switch(extent.switches);
  if (options.disk_dir) {
    const DiskRates disk = measure_disk(*options.disk_dir, extent.disk_bytes);
    machine.rates.disk_read_bytes = disk.read;
    machine.rates.disk_write_bytes = disk.write;
  }
  summarise(machine);
  machine.measured = planner::Measured{fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))), options.command};
  return machine;
}

}  // namespace zeroplan::runtime
