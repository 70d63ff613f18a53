#include "planner/schedule/state_buffers.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/cuda_workspace.h"

namespace zeroplan::planner {
namespace {

GroupStates persistent_states(PlanDraft& draft, const ShardGroup& group) {
  const Plan& plan = draft.plan();
  const Precision precision = plan.training.precision;
  GroupStates states;
  states.parameters_are_shard = plan.strategy.stage == 3 && !group.is_small;
  states.states_are_shard = plan.strategy.stage >= 1;
  const Elements held = states.parameters_are_shard ? group.shard : group.padded;
  const Elements optimized = states.states_are_shard ? group.shard : group.padded;
  states.parameters =
      draft.always(fmt::format("{} / parameters{}", group.name, states.parameters_are_shard ? " shard" : ""),
                   held * compute_dtype(precision));
  if (has_master_weights(precision)) {
    states.master = draft.always(group.name + " / master weights", optimized * DType::kFp32);
  }
  for (std::uint64_t m = 1; m <= moment_count(plan.training.optimizer); ++m) {
    states.moments.push_back(
        draft.always(fmt::format("{} / moment {}", group.name, m), optimized * moment_dtype(precision)));
  }
  return states;
}

void add_gradients(PlanDraft& draft, const ShardGroup& group, GroupStates& states) {
  const Plan& plan = draft.plan();
  const DType dtype = StateBuffers::gradient_dtype(plan);
  const bool accumulates = plan.strategy.accumulation > 1;
  const auto add = [&](const std::string& name, Bytes bytes, bool carries) {
    return carries ? draft.spanning_cycle(name, bytes) : draft.buffer(name, bytes);
  };
  const bool is_sharded = plan.strategy.stage >= 2;
  states.gradients = add(group.name + " / gradients", group.padded * dtype, accumulates && !is_sharded);
  if (is_sharded) states.gradient_shard = add(group.name + " / gradient shard", group.shard * dtype, accumulates);
}

/// The parts of the other ranks for one slice of a reduction. A slice is as long as the largest piece of any bucket,
/// but no longer than so much staging allows; longer ones gain nothing on the wire.
constexpr Bytes kMostStaging{std::uint64_t{4} << 20};

Bytes staging_bytes(const Plan& plan) {
  const std::uint64_t peers = plan.training.gpus - 1;
  const std::uint64_t size = size_of(StateBuffers::gradient_dtype(plan));
  std::uint64_t largest = 0;
  for (const ShardGroup& group : plan.partition.groups) largest = std::max(largest, group.shard.count());
  const std::uint64_t piece = std::min(largest, plan.strategy.reduce_bucket_size / plan.training.gpus);
  const std::uint64_t room = kMostStaging.count() / peers / size / kTensorAlignment * kTensorAlignment;
  return Elements(std::max(kTensorAlignment, std::min(piece, room))) * StateBuffers::gradient_dtype(plan) * peers;
}

/// The largest state of any group, or what else is filled through the staging buffer.
Bytes host_staging_bytes(const Plan& plan, const StateBuffers& states) {
  Bytes most = kStepScalarsBytes;
  const auto consider = [&](BufferId id) {
    if (id != kNoBuffer) most = std::max(most, plan.buffers[id].bytes);
  };
  consider(states.rotary_table);
  for (const GroupStates& group : states.groups) {
    consider(group.parameters);
    consider(group.master);
    for (const BufferId moment : group.moments) consider(moment);
  }
  return most;
}

void add_gpu_buffers(PlanDraft& draft, StateBuffers& states) {
  const Plan& plan = draft.plan();
  states.norm_workspace = draft.buffer("norm / workspace", cuda_sum_of_squares_workspace_bytes() * 2);
  if (plan.training.precision == Precision::kBf16) {
    const Elements block = kNarrowUpdateBlock * (1 + moment_count(plan.training.optimizer));
    states.update_workspace = draft.buffer("update / workspace", block * DType::kFp32);
  }
  const Bytes tokens = Elements(plan.tokens_per_pass()) * plan.strategy.accumulation * DType::kInt32;
  states.host_input.tokens = draft.on_host("host / tokens", tokens, true);
  states.host_input.labels = draft.on_host("host / labels", tokens, true);
  states.host_input.scalars = draft.on_host("host / step scalars", kStepScalarsBytes, true);
  states.host_report.scalars = draft.on_host("host / step scalars after the update", kStepScalarsBytes, true);
  states.host_report.partials = draft.on_host("host / norm partials", kNormPartialBytes * plan.training.gpus, true);
  states.host_staging.staging = draft.on_host("host / staging of states", host_staging_bytes(plan, states), false);
}

}  // namespace

StateBuffers make_state_buffers(PlanDraft& draft) {
  const Plan& plan = draft.plan();
  StateBuffers states;
  states.scalars = draft.always(std::string(kStepScalars), kStepScalarsBytes);
  states.norm_partials = draft.always("norm partials", kNormPartialBytes * plan.training.gpus);
  for (const ShardGroup& group : plan.partition.groups) states.groups.push_back(persistent_states(draft, group));
  if (plan.training.comm == CommKind::kMpi && plan.training.gpus > 1)
    states.reduce_staging = draft.always("reduce staging", staging_bytes(plan));
  const models::DecoderShape& shape = plan.model.decoder.value();
  if (!shape.learned_positions) {
    states.rotary_table =
        draft.always("rotary table", Shape{plan.training.seq, shape.head_size}.elements() * DType::kFp32);
  }
  if (plan.training.optimizer == OptimizerKind::kLamb) {
    const std::uint64_t tensors = plan.model.parameters.size();
    states.tensor_norms = draft.buffer("tensor norms", kTensorNormBytes * tensors * plan.training.gpus);
    states.trust_ratios = draft.buffer("trust ratios", kTrustRatioBytes * tensors);
  }
  for (std::size_t g = 0; g < plan.partition.groups.size(); ++g) {
    add_gradients(draft, plan.partition.groups[g], states.groups[g]);
  }
  if (plan.training.backend == BackendKind::kCuda) add_gpu_buffers(draft, states);
  return states;
}

UpdatePiece state_piece(const Plan& plan, const StateBuffers& states, std::uint32_t group, std::uint64_t begin,
                        std::uint64_t end) {
  const GroupStates& s = states.groups[group];
  UpdatePiece piece;
  piece.piece = {group, begin, end};
  piece.parameters = s.parameters;
  piece.parameters_are_shard = s.parameters_are_shard;
  piece.gradients_are_shard = s.gradient_shard != kNoBuffer;
  piece.gradients = piece.gradients_are_shard ? s.gradient_shard : s.gradients;
  piece.master = s.master;
  piece.moments = s.moments;
  piece.states_are_shard = s.states_are_shard;
  piece.whole_group = plan.strategy.stage == 0;
  return piece;
}

std::uint64_t state_extent(const Plan& plan, std::uint32_t group) {
  const ShardGroup& g = plan.partition.groups[group];
  return plan.strategy.stage == 0 ? g.padded.count() : g.shard.count();
}

}  // namespace zeroplan::planner
