// What `plan` answers: the document of interface.md section 4 and its text.
#pragma once

#include "models/core/json.h"
#include "planner/choice.h"

namespace zeroplan::reports {

/// `tiers` of a plan: budgets and needs per node on host and disk, per rank on the device; arenas and bounds per rank.
Json tiers_json(const planner::Plan& plan);

/// `strategy`: every decision, and the facts of the run that users take for decisions.
Json strategy_json(const planner::TrainingSpec& training, const planner::Strategy& strategy);

/// `limit`: the tier that a run does not fit, or null.
Json limit_json(const planner::FitResult& fit);

/// `predicted`: step, tokens/s, communication that is not hidden.
Json predicted_json(const planner::RunRecord& record);

/// The keys `model, params, framework, gpus, nodes, states, fits, limit, strategy, tiers, predicted, alternatives, why,
/// notes`. `params` and `states` come from the estimate of the same run.
Json plan_document(const planner::PlanChoice& choice, Json params, Json states);

/// For people: verdict, decisions, tiers with bounds, reasons.
std::string plan_text(const planner::PlanChoice& choice);

}  // namespace zeroplan::reports
