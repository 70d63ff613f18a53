// Adds the waits that data dependencies demand: a read after the write it needs, a write after reads and writes before
// it.
#pragma once

#include "planner/plan.h"

namespace zeroplan::planner {

/// Completes `waits` and `waits_previous` of every task, leaving out what lanes and other waits order already.
void add_dependency_waits(Plan& plan);

}  // namespace zeroplan::planner
