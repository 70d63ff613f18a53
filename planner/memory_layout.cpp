#include "planner/memory_layout.h"

#include <algorithm>

#include "planner/lifetimes.h"
#include "planner/op_level_bound.h"
#include "planner/packing/packing.h"

namespace zeroplan::planner {
namespace {

/// Persistent buffers, one after another from address 0. \returns where they end
Bytes place_persistent(Plan& plan, Tier tier) {
  TierPlan& t = plan.tier(tier);
  Bytes end;
  for (Buffer& buffer : plan.buffers) {
    if (buffer.tier != tier || !buffer.always) continue;
    buffer.offset = end;
    end += round_up(buffer.bytes, t.alignment);
    if (buffer.bytes > Bytes()) t.lower_bound_holders.push_back(buffer.id);
  }
  return end;
}

void place_transient(Plan& plan, const std::vector<TaskRun>& runs, Tier tier, Bytes bottom, std::uint64_t most_work) {
  TierPlan& t = plan.tier(tier);
  const ConflictGraph graph = find_conflicts(plan, runs, tier);
  ConflictInstance instance;
  for (const BufferId id : graph.buffers)
    instance.sizes.push_back(round_up(plan.buffers[id].bytes, t.alignment).count());
  instance.conflicts = graph.conflicts;
  instance.stays = graph.stays;
  const ConflictPacking packing = pack_conflicts(instance, most_work);
  for (std::size_t i = 0; i < graph.buffers.size(); ++i) {
    plan.buffers[graph.buffers[i]].offset = bottom + Bytes(packing.offsets[i]);
  }
  t.arena = bottom + Bytes(packing.height);
  t.lower_bound = bottom + Bytes(packing.clique_weight);
  for (const std::uint32_t i : packing.clique) t.lower_bound_holders.push_back(graph.buffers[i]);
}

}  // namespace

void lay_out_memory(Plan& plan, std::uint64_t most_work) {
  set_live_ranges(plan);
  std::vector<TaskRun> runs;
  for (auto& steps : run_sequences(plan)) runs.emplace_back(std::move(steps));
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    plan.tier(tier).lower_bound_holders.clear();
    place_transient(plan, runs, tier, place_persistent(plan, tier), most_work);
    plan.tier(tier).op_lower_bound = op_level_bound(plan, runs, tier);
  }
}

bool is_laid_out_tightly(const Plan& plan) {
  return std::all_of(plan.tiers.begin(), plan.tiers.end(),
                     [](const TierPlan& tier) { return tier.arena == tier.lower_bound; });
}

}  // namespace zeroplan::planner
