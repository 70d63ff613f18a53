// The clique search on a checked instance. Depends on planner/packing/conflict_index.h.
#pragma once

#include "planner/packing/conflict_index.h"

namespace zeroplan::planner {

/// See heaviest_clique.
Clique find_heaviest_clique(const ConflictIndex& index);

}  // namespace zeroplan::planner
