// What `plan` and `tune` answer about a run of another framework. Depends on simulator/framework_plan.
#pragma once

#include "models/core/json.h"
#include "simulator/framework_plan.h"

namespace zeroplan::reports {

/// The document of interface.md section 4; arenas and bounds are null.
Json framework_plan_document(const simulator::FrameworkRun& run, const simulator::FrameworkPlan& plan,
                             const std::vector<simulator::FrameworkAlternative>& alternatives);

std::string framework_plan_text(const simulator::FrameworkRun& run, const simulator::FrameworkPlan& plan,
                                const std::vector<simulator::FrameworkAlternative>& alternatives);

/// The document of interface.md section 5.
Json framework_tune_document(const simulator::FrameworkRun& run, const simulator::FrameworkSearch& search,
                             std::size_t top, double elapsed_s);

std::string framework_tune_text(const simulator::FrameworkRun& run, const simulator::FrameworkSearch& search,
                                std::size_t top);

/// Sentences on memory and speed for the comment block of an exported file.
std::vector<std::string> framework_predictions(const simulator::FrameworkPlan& plan);

}  // namespace zeroplan::reports
