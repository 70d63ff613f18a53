// What `plan` answers for runs of other frameworks: the document of interface.md section 4 and its text. Depends on
// simulator and reports.
#pragma once

#include "models/core/json.h"
#include "models/model.h"
#include "planner/machine.h"
#include "simulator/profiles/profile_choice.h"

namespace zeroplan::reports {

/// The keys of a plan; `arena_bytes`, `lower_bound_bytes` and the predicted times are null, since another framework
/// runs.
Json profile_plan_document(const models::Model& model, const planner::Machine& machine,
                           const simulator::ProfileChoice& choice, Json params);

std::string profile_plan_text(const models::Model& model, const planner::Machine& machine,
                              const simulator::ProfileChoice& choice);

}  // namespace zeroplan::reports
