// Proof that nothing is read outside of its live range. Purpose: which bytes die with each task, so that a test run can
// fill them with NaN at once. Main function: dying_bytes. Depends on planner/plan and planner/happens_before.
#pragma once

#include <vector>

#include "planner/plan.h"

namespace zeroplan::runtime {

/// By step and position: accesses of that task after which no other task of the cycle (of the phase) touches these
/// bytes of the buffer before they are written anew, and which all others that touch them precede. Buffers that are
/// always live never die.
std::vector<std::vector<std::vector<planner::Access>>> dying_bytes(const planner::Plan& plan);

}  // namespace zeroplan::runtime
