// Proves that a plan is safe to run, without using anything of the packer. Depends on happens_before.
#pragma once

#include <string>
#include <vector>

#include "planner/plan.h"

namespace zeroplan::planner {

/// Checks, for every order that lanes and waits allow: two accesses to the same bytes, one a write, are ordered; each
/// read finds the last write of the same buffer; bounds, alignment, budgets, frames, live ranges and the lower bounds'
/// proofs. \returns the problems, at most 100; none means that the plan may run. Whether it lacks a task is checked
/// where it is read.
std::vector<std::string> verify(const Plan& plan);

}  // namespace zeroplan::planner
