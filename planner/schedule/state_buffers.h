// The persistent buffers of a plan: parameters, master weights and moments of each group, scalars, rotary table; and
// the buffers of gradients. Main types: GroupStates, StateBuffers.
#pragma once

#include <vector>

#include "planner/schedule/plan_draft.h"

namespace zeroplan::planner {

/// Where the states of one group live on this rank.
struct GroupStates {
  BufferId parameters = kNoBuffer;    ///< the whole group, or this rank's shard
  bool parameters_are_shard = false;  ///< stage 3, unless the group is small
  BufferId master = kNoBuffer;
  std::vector<BufferId> moments;
  bool states_are_shard = false;        ///< stage 1 and above
  BufferId gradients = kNoBuffer;       ///< the whole group; stages 0 and 1: until the update
  BufferId gradient_shard = kNoBuffer;  ///< stages 2 and 3: reduced and, when accumulating, summed
};

/// All of them, made in an order in which nothing that depends on batch or sequence comes before what persists.
struct StateBuffers {
  BufferId scalars = kNoBuffer;
  BufferId norm_partials = kNoBuffer;
  BufferId rotary_table = kNoBuffer;
  BufferId reduce_staging = kNoBuffer;    ///< ranks that are processes: parts of gradients of the other ranks
  BufferId tensor_norms = kNoBuffer;      ///< LAMB: the ranks' sums of squares of each tensor, during the update
  BufferId trust_ratios = kNoBuffer;      ///< LAMB: likewise
  BufferId norm_workspace = kNoBuffer;    ///< GPU: scratch of sums of squares
  BufferId update_workspace = kNoBuffer;  ///< GPU: fp32 copies of a block of states that have 16 bits
  HostSide host_input;                    ///< GPU: what the input task copies from
  HostSide host_report;                   ///< GPU: what the end of an update is copied to
  HostSide host_staging;                  ///< GPU: through which states go to and from the device
  std::vector<GroupStates> groups;

  /// Element type of gradients.
  static DType gradient_dtype(const Plan& plan) { return planner::gradient_dtype(plan.training); }
};

StateBuffers make_state_buffers(PlanDraft& draft);

/// The states as pieces [begin, end) of the shard; at stage 0 of the whole group.
UpdatePiece state_piece(const Plan& plan, const StateBuffers& states, std::uint32_t group, std::uint64_t begin,
                        std::uint64_t end);
/// How far `end` goes for a group: its shard, or at stage 0 all of it.
std::uint64_t state_extent(const Plan& plan, std::uint32_t group);

}  // namespace zeroplan::planner
