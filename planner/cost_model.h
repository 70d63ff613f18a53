// How long things take on a Machine. Purpose: op, program or task -> seconds, from measured points where the machine
// document has them (CPU), else from peak rates. Main type: CostModel. Pure; must not depend on simulator, runtime or
// kernels.
//
// On the CPU back end the names of the measured ops are those of models::to_string(OpKind), and "adamw", "adam", "sgd",
// "lion", "adagrad", "lamb_moments", "lamb_norms", "lamb_update", "sum_of_squares", "fill", "all_gather",
// "reduce_scatter", "all_reduce", "exchange". Their extents:
//   elementwise, optimizers, sum_of_squares, fill: work = elements
//   norms: work = elements of x, width = of a row; rotary: work = elements, width = of a head
//   attention: work = tokens x heads, width = of a head, depth = tokens of a sequence
//   cross_entropy: work = logits, width = vocabulary; embedding: work = tokens x hidden, width = hidden
//   collectives: work = bytes of the whole buffer; exchange: work = 1 (a value of each rank)
// Points of another type are those of fp32 where the machine document has no others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/rate_table.h"

namespace zeroplan::planner {

/// Seconds of everything in a plan, for one rank while its peers do the same.
class CostModel {
 public:
  /// Copies what it needs of the machine.
  CostModel(const Machine& machine, const TrainingSpec& training);

  /// C[m,n] += A[m,k] B[k,n]: 2mnk FLOPs at the rate interpolated in log m, log n, log k between the measured products;
  /// without any, at the peak of the type. Never faster than its operands pass through memory (roofline: Williams et
  /// al., CACM 52(4), 2009).
  Seconds gemm(DType dtype, std::uint64_t m, std::uint64_t n, std::uint64_t k) const;

  /// A measured op (see the head of this file), or else `bytes` at the bandwidth of device memory.
  Seconds op_time(const std::string& name, DType dtype, const RateTable::Extents& extents, Bytes bytes) const;

  /// One op of a program. Matrix products by `gemm`, attention without measured points by FLOPs at half the peak,
  /// everything else by measured points or bytes; never less than the latency of a kernel.
  Seconds op(const models::Program& program, const models::Op& op) const;
  Seconds program(const models::Program& program) const;

  /// A collective over all ranks of `bytes` (the whole buffer, S). Measured points first; else ring formulas:
  /// all-gather, reduce-scatter: (n-1) a + (n-1)/n S/B; all-reduce twice that (Thakur et al., IJHPCA 19(1), 2005). Over
  /// nodes hierarchically: within the node S, then between nodes S over the ranks of a node at the network's rate.
  Seconds collective(CollectiveKind kind, Bytes bytes, DType dtype = DType::kFp32) const;

  /// The optimizer on so many parameters: measured, else the bytes of master weights, moments, gradients and weights
  /// (AdamW in fp32 28 a parameter: reads p, g, m, v, writes p, m, v; with one moment 20). LAMB: its last pass.
  Seconds update(Elements parameters, DType compute) const;

  /// A task of the plan. Programs are looked up by index, so their times are computed once.
  Seconds task(const Plan& plan, const Task& task) const;

  /// Cores that a task of this lane keeps busy on its rank; 0 where lanes do not share cores.
  double cores_used(Lane lane) const;
  /// Cores of a node over the ranks on it; 0 where lanes do not share cores.
  double cores_per_rank() const { return cores_per_rank_; }
  /// From the end of a task to the start of one on another lane that waits for it.
  Seconds lane_switch() const { return lane_switch_; }

 private:
  bool is_cpu() const { return training_.backend == BackendKind::kCpu; }
  const RateTable* table(const std::string& op, DType dtype) const;
  FlopsPerSecond peak(DType dtype) const;
  Seconds link_time(Bytes bytes) const;
  Seconds memory_time(Bytes bytes) const;
  DType gradient_of(DType compute) const;
  Seconds moments(Elements parameters, DType compute) const;
  Seconds state_task(const Plan& plan, const Task& task, const StateWork& work) const;

  TrainingSpec training_;
  FlopsPerSecond fp32_peak_, bf16_peak_;
  BytesPerSecond memory_, link_, network_;
  MachineLatencies latencies_;
  std::map<std::pair<std::string, DType>, RateTable> tables_;
  std::map<DType, RateTable> gemm_;
  double cores_per_rank_ = 0;
  Seconds lane_switch_;
};

}  // namespace zeroplan::planner
