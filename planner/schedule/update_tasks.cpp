#include "planner/schedule/update_tasks.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroplan::planner {
namespace {

class UpdateWriter {
 public:
  explicit UpdateWriter(ScheduleContext& context) : context_(context), draft_(context.draft), plan_(context.plan()) {}

  void write() {
    const auto sub_groups = cut_sub_groups();
    if (plan_.training.optimizer == OptimizerKind::kLamb) {
      for (std::size_t i = 0; i < sub_groups.size(); ++i) write_moments(i, sub_groups[i]);
      write_tensor_norms();
    }
    for (std::size_t i = 0; i < sub_groups.size(); ++i) write_sub_group(i, sub_groups[i]);
  }

 private:
  using Pieces = std::vector<UpdatePiece>;

  /// All states in pieces, of which so many together have at most --sub-group-size elements.
  std::vector<Pieces> cut_sub_groups() const {
    const std::uint64_t most =
        std::max<std::uint64_t>(plan_.strategy.sub_group_size, kTensorAlignment) / kTensorAlignment * kTensorAlignment;
    std::vector<Pieces> sub_groups;
    std::uint64_t room = 0;
    for (std::uint32_t g = 0; g < plan_.partition.groups.size(); ++g) {
      const std::uint64_t extent = state_extent(plan_, g);
      for (std::uint64_t begin = 0; begin < extent;) {
        if (room == 0) {
          sub_groups.emplace_back();
          room = most;
        }
        const std::uint64_t end = std::min(extent, begin + room);
        sub_groups.back().push_back(state_piece(plan_, context_.states, g, begin, end));
        room -= end - begin;
        begin = end;
      }
    }
    return sub_groups;
  }

  void write_sub_group(std::size_t index, const Pieces& pieces) const {
    Task& task = draft_.task(fmt::format("update/{}", index), TaskKind::kUpdate, Lane::kCompute);
    const bool is_lamb = plan_.training.optimizer == OptimizerKind::kLamb;
    StateWork work;
    work.pieces = pieces;
    work.scalars = context_.states.scalars;
    work.workspace = context_.states.update_workspace;
    draft_.reads(task, work.scalars);
    draft_.writes(task, work.workspace);
    if (is_lamb) {
      work.trust_ratios = context_.states.trust_ratios;
      draft_.reads(task, work.trust_ratios);
    }
    for (const UpdatePiece& piece : pieces) {
      if (!is_lamb) access_gradients(task, piece);
      access_state(task, piece.parameters, piece, piece.parameters_are_shard || piece.whole_group,
                   parameter_dtype(plan_), true);
      access_state(task, piece.master, piece, true, DType::kFp32, true);
      access_moments(task, piece, !is_lamb);
    }
    task.work = std::move(work);
  }

  void write_moments(std::size_t index, const Pieces& pieces) const {
    Task& task = draft_.task(fmt::format("moments/{}", index), TaskKind::kMoments, Lane::kCompute);
    StateWork work;
    work.pieces = pieces;
    work.scalars = context_.states.scalars;
    draft_.reads(task, work.scalars);
    for (const UpdatePiece& piece : pieces) {
      access_gradients(task, piece);
      access_moments(task, piece, true);
    }
    task.work = std::move(work);
  }

  /// Each rank sums over its shards alone, at every stage, and every rank adds the sums in rank order.
  void write_tensor_norms() const {
    const StateBuffers& states = context_.states;
    StateWork work;
    work.scalars = states.scalars;
    work.tensor_norms = states.tensor_norms;
    Task& norms = draft_.task("tensor-norms", TaskKind::kTensorNorms, Lane::kCompute);
    StateWork of_shards = work;
    for (std::uint32_t g = 0; g < plan_.partition.groups.size(); ++g) {
      of_shards.pieces.push_back(state_piece(plan_, states, g, 0, plan_.partition.groups[g].shard.count()));
      const UpdatePiece& piece = of_shards.pieces.back();
      draft_.reads(norms, piece.master != kNoBuffer ? piece.master : piece.parameters);
      for (const BufferId moment : piece.moments) draft_.reads(norms, moment);
    }
    draft_.reads(norms, states.scalars);
    draft_.writes(norms, states.tensor_norms);
    of_shards.workspace = states.norm_workspace;
    draft_.writes(norms, of_shards.workspace);
    norms.work = std::move(of_shards);
    Task& gather = draft_.task("gather-tensor-norms", TaskKind::kGatherTensorNorms, Lane::kReduce);
    draft_.reads(gather, states.tensor_norms);
    draft_.writes(gather, states.tensor_norms);
    gather.work = work;
    Task& ratios = draft_.task("trust-ratios", TaskKind::kTrustRatios, Lane::kCompute);
    work.trust_ratios = states.trust_ratios;
    draft_.reads(ratios, states.tensor_norms);
    draft_.reads(ratios, states.scalars);
    draft_.writes(ratios, states.trust_ratios);
    ratios.work = std::move(work);
  }

  void access_gradients(Task& task, const UpdatePiece& piece) const {
    access_state(task, piece.gradients, piece, piece.gradients_are_shard || piece.whole_group,
                 StateBuffers::gradient_dtype(plan_), false);
  }

  void access_moments(Task& task, const UpdatePiece& piece, bool writes) const {
    for (const BufferId moment : piece.moments) {
      access_state(task, moment, piece, true, moment_dtype(plan_.training.precision), writes);
    }
  }

  /// The piece's part of a buffer that is laid out as the piece counts; else (a shard within a whole group) all of it,
  /// since which part it is depends on the rank.
  void access_state(Task& task, BufferId buffer, const UpdatePiece& piece, bool is_laid_out_alike, DType dtype,
                    bool writes) const {
    if (buffer == kNoBuffer) return;
    if (!is_laid_out_alike) {
      draft_.reads(task, buffer);
      if (writes) draft_.writes(task, buffer);
      return;
    }
    const Bytes offset = Elements(piece.piece.begin) * dtype;
    const Bytes bytes = Elements(piece.piece.end - piece.piece.begin) * dtype;
    draft_.reads(task, buffer, offset, bytes);
    if (writes) draft_.writes(task, buffer, offset, bytes);
  }

  ScheduleContext& context_;
  PlanDraft& draft_;
  const Plan& plan_;
};

}  // namespace

void write_update_tasks(ScheduleContext& context) {
  UpdateWriter(context).write();
}

}  // namespace zeroplan::planner
