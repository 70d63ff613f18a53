// Messages of DeepSpeed, the trainer and their libraries that say less than they know.
#pragma once

#include <string>

#include "planner/deepspeed/finding.h"

namespace zeroplan::planner::deepspeed {

/// Adds a finding for each known message within `log` (in lower case).
void report_known_messages(Findings& findings, const std::string& log);

}  // namespace zeroplan::planner::deepspeed
