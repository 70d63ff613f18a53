// The clique search on a checked instance. Depends on planner/packing/conflict_index.h.
#pragma once

#include "planner/packing/conflict_index.h"

namespace zeroplan::planner {

/// A clique and a position of the linear clock around which its members are live.
struct SeatedClique {
  Clique clique;
  std::uint32_t position = 0;
};

/// See heaviest_clique.
SeatedClique find_heaviest_clique(const ConflictIndex& index);

}  // namespace zeroplan::planner
