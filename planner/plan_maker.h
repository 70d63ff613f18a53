// From a model, a machine and decisions to a plan: skeleton, waits, memory. The one way in which plans come to be.
#pragma once

#include "planner/packing/packing.h"
#include "planner/plan.h"

namespace zeroplan::planner {

/// A complete plan, whether or not it fits its budgets. Pure: equal inputs give equal plans.
/// \param packing_work  see pack_conflicts
/// \throws Error{kUnsupported, kUsage} as build_skeleton; Error{kOverflow} for sizes beyond 64 bits
Plan make_plan(const models::Model& model, const Machine& machine, const TrainingSpec& training,
               const Strategy& strategy, std::uint64_t packing_work = kThoroughPacking);

/// The tier that is too small for its arena, if any.
std::optional<Tier> tier_too_small(const Plan& plan);

}  // namespace zeroplan::planner
