// What `plan` answers: the document of interface.md section 4 and its text.
#pragma once

#include "models/core/json.h"
#include "planner/choice.h"

namespace zeroplan::reports {

/// The keys `model, params, framework, gpus, nodes, states, fits, limit, strategy, tiers, predicted, alternatives, why,
/// notes`. `params` and `states` come from the estimate of the same run.
Json plan_document(const planner::PlanChoice& choice, Json params, Json states);

/// For people: verdict, decisions, tiers with bounds, reasons.
std::string plan_text(const planner::PlanChoice& choice);

}  // namespace zeroplan::reports
