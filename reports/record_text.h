// A run record for people. Main function: record_text.
#pragma once

#include <string>

#include "planner/run_record.h"

namespace zeroplan::reports {

/// Step time, lanes, moved bytes, tiers with their largest holders.
std::string record_text(const planner::RunRecord& record);

}  // namespace zeroplan::reports
