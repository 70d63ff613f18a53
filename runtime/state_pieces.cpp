#include "runtime/state_pieces.h"

#include <fmt/format.h>

namespace zeroplan::runtime {
namespace {

using planner::BufferId;

std::byte* inside(const planner::Plan& plan, const Arenas& arenas, BufferId buffer, Elements first, Elements count,
                  DType dtype) {
  if (buffer == planner::kNoBuffer) return nullptr;
  if ((first + count) * dtype > arenas.size(buffer)) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("elements {} to {} do not lie in buffer {}", first.count(),
                                                      (first + count).count(), plan.buffers[buffer].name))
        .hint("the plan is damaged or was made by another version: make it again");
  }
  return arenas.address(buffer) + (first * dtype).count();
}

}  // namespace

StatePiece resolve_piece(const planner::Plan& plan, const planner::UpdatePiece& piece, std::uint64_t rank,
                         const Arenas& arenas, bool shard_only) {
  const planner::ShardGroup& group = plan.partition.groups.at(piece.piece.group);
  const Elements begin(piece.piece.begin);
  const Elements count = Elements(piece.piece.end) - begin;
  const bool counts_whole = piece.whole_group && !shard_only;
  const auto first = [&](bool is_shard) { return is_shard || counts_whole ? begin : group.shard * rank + begin; };
  const planner::Precision precision = plan.training.precision;
  StatePiece result;
  result.count = count.count();
  result.group_begin = counts_whole ? begin : group.shard * rank + begin;
  result.parameter_dtype = planner::compute_dtype(precision);
  result.gradient_dtype = planner::gradient_dtype(plan.training);
  result.parameters =
      inside(plan, arenas, piece.parameters, first(piece.parameters_are_shard), count, result.parameter_dtype);
  result.gradients =
      inside(plan, arenas, piece.gradients, first(piece.gradients_are_shard), count, result.gradient_dtype);
  const Elements state = first(piece.states_are_shard);
  result.master = reinterpret_cast<float*>(inside(plan, arenas, piece.master, state, count, DType::kFp32));
  for (const BufferId moment : piece.moments) {
    result.moments.push_back(inside(plan, arenas, moment, state, count, planner::moment_dtype(precision)));
  }
  return result;
}

GroupState resolve_group(const planner::Plan& plan, const planner::UpdatePiece& piece, std::uint64_t rank,
                         const Arenas& arenas) {
  const planner::ShardGroup& group = plan.partition.groups.at(piece.piece.group);
  const Elements shard_begin = group.shard * rank;
  const planner::Precision precision = plan.training.precision;
  GroupState state;
  state.group = piece.piece.group;
  state.parameter_dtype = planner::compute_dtype(precision);
  state.moment_dtype = planner::moment_dtype(precision);
  state.parameters_begin = piece.parameters_are_shard ? shard_begin : Elements();
  state.parameters_count = piece.parameters_are_shard ? group.shard : group.padded;
  state.states_begin = piece.states_are_shard ? shard_begin : Elements();
  state.states_count = piece.states_are_shard ? group.shard : group.padded;
  state.parameters = inside(plan, arenas, piece.parameters, Elements(), state.parameters_count, state.parameter_dtype);
  state.master =
      reinterpret_cast<float*>(inside(plan, arenas, piece.master, Elements(), state.states_count, DType::kFp32));
  for (const BufferId moment : piece.moments) {
    state.moments.push_back(inside(plan, arenas, moment, Elements(), state.states_count, state.moment_dtype));
  }
  return state;
}

}  // namespace zeroplan::runtime
