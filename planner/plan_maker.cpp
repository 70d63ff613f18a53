#include "planner/plan_maker.h"

#include "planner/dependencies.h"
#include "planner/memory_layout.h"
#include "planner/schedule/skeleton.h"

namespace zeroplan::planner {

Plan make_plan(const models::Model& model, const Machine& machine, const TrainingSpec& training,
               const Strategy& strategy, std::uint64_t packing_work) {
  Plan plan = build_skeleton(model, machine, training, strategy);
  add_dependency_waits(plan);
  lay_out_memory(plan, packing_work);
  return plan;
}

std::optional<Tier> tier_too_small(const Plan& plan) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const TierPlan& t = plan.tier(tier);
    if (t.budget && t.arena > *t.budget) return tier;
  }
  return std::nullopt;
}

}  // namespace zeroplan::planner
