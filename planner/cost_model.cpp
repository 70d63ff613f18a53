#include "planner/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace zeroplan::planner {
namespace {

using models::Op;
using models::Operand;
using models::OpKind;
using models::Program;
using models::ProgramTensor;

/// Fused attention reaches about half the rate of large matrix products: 262 to 613 of 700 TFLOP/s on an H200
/// (PyTorch 2.11, heads of 64 and 128), which the preset's comment dates.
constexpr double kAttentionEfficiency = 0.5;

/// Rows x columns of an operand; tensors of more than two extents count as [product of the outer ones, last].
struct Extent {
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  std::uint64_t elements() const { return detail::checked_mul(rows, columns); }
};

Extent extent_of(const Program& program, const Operand& operand) {
  if (operand.tensor == models::kNoTensor) return {0, 0};
  const ProgramTensor& tensor = program.tensors.at(operand.tensor);
  Extent extent;
  extent.columns = tensor.shape.rank() == 0 ? 1 : tensor.shape[tensor.shape.rank() - 1];
  extent.rows = extent.columns == 0 ? 0 : tensor.shape.elements().count() / extent.columns;
  if (operand.rows != 0) extent.rows = operand.rows;
  if (operand.columns != 0) extent.columns = operand.columns;
  return extent;
}

Extent read_extent(const Program& program, const Op& op, std::size_t i) {
  return i < op.reads.size() ? extent_of(program, op.reads[i]) : Extent{0, 0};
}

Extent written_extent(const Program& program, const Op& op, std::size_t i) {
  return i < op.writes.size() ? extent_of(program, op.writes[i]) : Extent{0, 0};
}

DType dtype_of(const Program& program, const Operand& operand) {
  return operand.tensor == models::kNoTensor ? DType::kFp32 : program.tensors.at(operand.tensor).dtype;
}

/// How the activations of an op are stored. Ids, labels and tables of angles come first in some.
DType storage_dtype(const Program& program, const Op& op) {
  switch (op.kind) {
    case OpKind::kEmbeddingForward:
      return dtype_of(program, op.writes.at(0));
    case OpKind::kEmbeddingBackward:
    case OpKind::kRotaryForward:
    case OpKind::kRotaryBackward:
    case OpKind::kCrossEntropy:
      return dtype_of(program, op.reads.at(1));
    default:
      return dtype_of(program, op.reads.at(0));
  }
}

/// Extents of an op's measured points.
RateTable::Extents extents_of(const Program& program, const Op& op) {
  switch (op.kind) {
    case OpKind::kLayerNormForward:
    case OpKind::kRmsNormForward:
    case OpKind::kLayerNormBackward:
    case OpKind::kRmsNormBackward: {
      const bool forward = op.kind == OpKind::kLayerNormForward || op.kind == OpKind::kRmsNormForward;
      return {read_extent(program, op, forward ? 0 : 1).elements(),
              read_extent(program, op, forward ? 1 : 2).elements(), 1};
    }
    case OpKind::kRotaryForward:
    case OpKind::kRotaryBackward:
      return {read_extent(program, op, 1).elements(), read_extent(program, op, 0).columns, 1};
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward: {
      const bool forward = op.kind == OpKind::kAttentionForward;
      const Extent q = read_extent(program, op, forward ? 0 : 1);
      const Extent lse = forward ? written_extent(program, op, 1) : read_extent(program, op, 5);
      // FLOPs are 2 x tokens x seq x width forward (causal), 2.5 times that backward.
      const double per_seq = 2.0 * static_cast<double>(q.elements()) * (forward ? 1 : 2.5);
      const double seq = per_seq > 0 ? static_cast<double>(op.flops.count()) / per_seq : 1;
      return {detail::checked_mul(q.rows, lse.columns), q.columns / std::max<std::uint64_t>(lse.columns, 1),
              static_cast<std::uint64_t>(std::max(1.0, std::round(seq)))};
    }
    case OpKind::kCrossEntropy: {
      const Extent logits = read_extent(program, op, 1);
      return {logits.elements(), logits.columns, 1};
    }
    case OpKind::kEmbeddingForward: {
      const Extent out = written_extent(program, op, 0);
      return {out.elements(), out.columns, 1};
    }
    case OpKind::kEmbeddingBackward: {
      const Extent d_out = read_extent(program, op, 1);
      return {d_out.elements(), d_out.columns, 1};
    }
    case OpKind::kLossSum:
      return {read_extent(program, op, 0).elements(), 1, 1};
    default:
      return {written_extent(program, op, 0).elements(), 1, 1};
  }
}

std::string_view name_of_collective(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllReduce:
      return "all_reduce";
  }
  return "";
}

bool is_collective(std::string_view op) {
  return op == "all_gather" || op == "reduce_scatter" || op == "all_reduce" || op == "exchange";
}

/// Which points to use for so many ranks on a node: those measured with as many; else the nearest smaller number, else
/// the smallest.
template <class Points>
std::uint64_t ranks_to_use(const Points& points, std::uint64_t ranks) {
  std::uint64_t below = 0, smallest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& point : points) {
    if (point.ranks <= ranks) below = std::max(below, point.ranks);
    smallest = std::min(smallest, point.ranks);
  }
  return below != 0 ? below : smallest;
}

std::uint64_t work_of(const RateTable::Extents& extents) {
  return std::max<std::uint64_t>(extents[0], 1);
}

}  // namespace

CostModel::CostModel(const Machine& machine, const TrainingSpec& training)
    : training_(training), latencies_(machine.latencies) {
  const std::uint64_t ranks = std::max<std::uint64_t>(training.ranks_per_node(), 1);
  const MachineRates& rates = machine.rates;
  // Ranks of the CPU back end share the node's cores and memory; each GPU has its own.
  const double sharers = is_cpu() ? static_cast<double>(ranks) : 1.0;
  fp32_peak_ = FlopsPerSecond(rates.fp32_flops.per_second() / sharers);
  bf16_peak_ = FlopsPerSecond(rates.bf16_flops.per_second() / sharers);
  memory_ = BytesPerSecond((rates.device_bytes.known() ? rates.device_bytes : rates.host_bytes).per_second() / sharers);
  link_ = rates.link_bytes;
  network_ = rates.network_bytes;
  // Fewer ranks were measured than run here: each then has so much less of the node.
  const auto share = [&](std::uint64_t measured) {
    return is_cpu() ? static_cast<double>(ranks) / static_cast<double>(measured) : 1.0;
  };
  if (!rates.gemm.empty()) {
    const std::uint64_t measured = is_cpu() ? ranks_to_use(rates.gemm, ranks) : 1;
    for (const GemmPoint& p : rates.gemm) {
      if (p.ranks == measured && p.flops.known())
        gemm_[p.dtype].add({p.m, p.n, p.k}, share(measured) / p.flops.per_second());
    }
    for (auto& entry : gemm_) entry.second.finish();
  }
  if (!is_cpu()) return;
  if (machine.cores != 0) cores_per_rank_ = static_cast<double>(machine.cores) / static_cast<double>(ranks);
  lane_switch_ = latencies_.task;
  std::map<std::pair<std::string, DType>, std::vector<OpPoint>> by_op;
  for (const OpPoint& p : rates.cpu_ops) by_op[{p.op, p.dtype}].push_back(p);
  for (const auto& [op, points] : by_op) {
    // Points of a collective hold for its number of ranks; between nodes there are no loopback collectives.
    if (is_collective(op.first) && (training.nodes > 1 || training.comm != CommKind::kLoopback)) continue;
    const std::uint64_t measured = ranks_to_use(points, ranks);
    RateTable table;
    for (const OpPoint& p : points) {
      if (p.ranks != measured || !(p.time.value() > 0)) continue;
      table.add({p.work, p.width, p.depth},
                p.time.value() * share(measured) / static_cast<double>(std::max<std::uint64_t>(p.work, 1)));
    }
    if (table.empty()) continue;
    table.finish();
    tables_[op] = std::move(table);
  }
}

const RateTable* CostModel::table(const std::string& op, DType dtype) const {
  auto found = tables_.find({op, dtype});
  if (found == tables_.end()) found = tables_.find({op, DType::kFp32});
  return found == tables_.end() ? nullptr : &found->second;
}

FlopsPerSecond CostModel::peak(DType dtype) const {
  return size_of(dtype) == 2 && bf16_peak_.known() ? bf16_peak_ : fp32_peak_;
}

Seconds CostModel::memory_time(Bytes bytes) const {
  return memory_.known() ? bytes / memory_ : Seconds(0);
}

Seconds CostModel::gemm(DType dtype, std::uint64_t m, std::uint64_t n, std::uint64_t k) const {
  const Flops flops(detail::checked_mul(2, detail::checked_mul(detail::checked_mul(m, n), k)));
  auto found = gemm_.find(dtype);
  if (found == gemm_.end() && is_cpu()) found = gemm_.find(DType::kFp32);  // its kernels multiply in fp32 anyhow
  if (found != gemm_.end()) return Seconds(static_cast<double>(flops.count()) * found->second.at({m, n, k}));
  const Bytes bytes = (Elements(m) * k + Elements(k) * n + Elements(m) * n) * dtype;
  const FlopsPerSecond rate = peak(dtype);
  return std::max(rate.known() ? flops / rate : Seconds(0), memory_time(bytes));
}

Seconds CostModel::op_time(const std::string& name, DType dtype, const RateTable::Extents& extents, Bytes bytes) const {
  const RateTable* points = table(name, dtype);
  if (points == nullptr) return std::max(memory_time(bytes), latencies_.kernel);
  // Below the smallest measured work the time is that of the smallest: a floor.
  const std::uint64_t work = std::max(work_of(extents), points->smallest(0));
  return Seconds(points->at({work, extents[1], extents[2]}) * static_cast<double>(work));
}

Seconds CostModel::op(const Program& program, const Op& op) const {
  Seconds time;
  switch (op.kind) {
    case OpKind::kLinearForward:
    case OpKind::kLinearBackwardInput: {
      const Extent x = read_extent(program, op, 0);
      time = gemm(dtype_of(program, op.reads.at(0)), x.rows, written_extent(program, op, 0).columns, x.columns);
      break;
    }
    case OpKind::kLinearBackwardWeight: {
      const Extent weight = written_extent(program, op, 0);
      const Extent d_y = read_extent(program, op, 0);
      time = gemm(dtype_of(program, op.reads.at(0)), weight.rows, weight.columns, d_y.rows);
      const bool has_bias = op.writes.size() > 1 && op.writes[1].tensor != models::kNoTensor;
      if (has_bias) time += memory_time(Elements(d_y.elements()) * dtype_of(program, op.reads.at(0)));
      break;
    }
    default: {
      const std::string name(models::to_string(op.kind));
      const bool is_attention = op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionBackward;
      const DType dtype = storage_dtype(program, op);
      if (is_attention && table(name, dtype) == nullptr) {
        const FlopsPerSecond rate(peak(dtype).per_second() * kAttentionEfficiency);
        time = std::max(rate.known() ? op.flops / rate : Seconds(0), memory_time(op.bytes_moved));
      } else {
        time = op_time(name, dtype, extents_of(program, op), op.bytes_moved);
      }
      // A table's gradient that is not added to is zeroed first, all of it.
      if (op.kind == OpKind::kEmbeddingBackward && !op.accumulate && table(name, dtype) != nullptr) {
        const std::uint64_t elements = written_extent(program, op, 0).elements();
        const DType gradient = dtype_of(program, op.writes.at(0));
        time += op_time("fill", gradient, {elements, 1, 1}, Elements(elements) * gradient);
      }
    }
  }
  return std::max(time, latencies_.kernel);
}

Seconds CostModel::program(const Program& program) const {
  Seconds sum;
  for (const Op& each : program.ops) sum += op(program, each);
  return sum;
}

Seconds CostModel::link_time(Bytes bytes) const {
  const std::uint64_t local = training_.ranks_per_node();
  const std::uint64_t nodes = training_.nodes;
  Seconds time;
  if (local > 1) {
    const double ranks = static_cast<double>(local);
    time += latencies_.collective;
    if (link_.known()) time += (bytes / link_) * ((ranks - 1) / ranks);
  }
  if (nodes > 1) {
    const double count = static_cast<double>(nodes);
    time += latencies_.network * (count - 1);
    if (network_.known()) time += (bytes / network_) * ((count - 1) / count / static_cast<double>(local));
  }
  return time;
}

Seconds CostModel::collective(CollectiveKind kind, Bytes bytes, DType dtype) const {
  const std::string name(name_of_collective(kind));
  if (table(name, dtype) != nullptr) return op_time(name, dtype, {bytes.count(), 1, 1}, bytes);
  if (training_.gpus == 1) return latencies_.kernel;
  return kind == CollectiveKind::kAllReduce ? link_time(bytes) * 2 : link_time(bytes);
}

DType CostModel::gradient_of(DType compute) const {
  return training_.gradient_dtype == GradientType::kFp32 ? DType::kFp32 : compute;
}

Seconds CostModel::update(Elements parameters, DType compute) const {
  const OptimizerKind kind = training_.optimizer;
  // 16-bit parameters: the fp32 master weight is read and written, the weight written.
  const std::uint64_t copy = size_of(compute) == 4 ? 0 : size_of(compute);
  const std::uint64_t parameter = 2 * size_of(DType::kFp32) + copy;
  const std::uint64_t moments = moment_count(kind) * size_of(DType::kFp32);
  const bool is_lamb = kind == OptimizerKind::kLamb;
  // LAMB's last pass only reads its moments and needs no gradient.
  const std::uint64_t bytes = parameter + (is_lamb ? moments : 2 * moments + size_of(gradient_of(compute)));
  return op_time(is_lamb ? "lamb_update" : std::string(name_of(kind)), compute, {parameters.count(), 1, 1},
                 Bytes(detail::checked_mul(parameters.count(), bytes)));
}

Seconds CostModel::moments(Elements parameters, DType compute) const {
  const std::uint64_t bytes = 4 * size_of(DType::kFp32) + size_of(gradient_of(compute));
  return op_time("lamb_moments", compute, {parameters.count(), 1, 1},
                 Bytes(detail::checked_mul(parameters.count(), bytes)));
}

Seconds CostModel::state_task(const Plan& plan, const Task& task, const StateWork& work) const {
  const DType compute = compute_dtype(plan.training.precision);
  const DType gradient = gradient_of(compute);
  Elements elements;
  for (const UpdatePiece& piece : work.pieces) elements += Elements(piece.piece.end - piece.piece.begin);
  switch (task.kind) {
    case TaskKind::kUpdate:
      return update(elements, compute);
    case TaskKind::kMoments:
      return moments(elements, compute);
    case TaskKind::kTensorNorms:
      return op_time("lamb_norms", DType::kFp32, {elements.count(), 1, 1}, elements * DType::kFp32 * 3);
    case TaskKind::kGatherTensorNorms:
      return collective(CollectiveKind::kAllGather,
                        kTensorNormBytes * plan.model.parameters.size() * plan.training.gpus);
    case TaskKind::kNorm:
      return op_time("sum_of_squares", gradient, {elements.count(), 1, 1}, elements * gradient);
    case TaskKind::kGatherNorm: {
      if (table("exchange", DType::kFp32) != nullptr) return op_time("exchange", DType::kFp32, {1, 1, 1}, Bytes());
      return link_time(kNormPartialBytes * plan.training.gpus);
    }
    case TaskKind::kFill:
      return op_time("fill", DType::kFp32, {elements.count(), 1, 1}, elements * DType::kFp32);
    default:
      return latencies_.kernel;
  }
}

Seconds CostModel::task(const Plan& plan, const Task& task) const {
  if (const auto* work = std::get_if<ComputeWork>(&task.work)) {
    Seconds time = task.program < plan.programs.size() ? program(plan.programs[task.program]) : Seconds(0);
    Bytes cleared;
    for (const Access& access : work->clears) cleared += access.bytes;
    return time + memory_time(cleared);
  }
  if (const auto* work = std::get_if<CollectiveWork>(&task.work)) {
    return collective(work->kind, Elements(work->elements(plan.partition)) * work->dtype, work->dtype);
  }
  if (const auto* work = std::get_if<StateWork>(&task.work)) return state_task(plan, task, *work);
  return latencies_.kernel;
}

double CostModel::cores_used(Lane lane) const {
  if (cores_per_rank_ == 0 || lane == Lane::kDisk) return 0;
  // With more ranks than cores, the times of tasks already count a rank's part of a core.
  if (lane != Lane::kCompute || cores_per_rank_ < 1) return std::min(1.0, cores_per_rank_);
  return std::floor(cores_per_rank_);
}

}  // namespace zeroplan::planner
