// Cliques around the positions of the clock: together they say how full the arena is at any time. Main function:
// cover_by_cliques. Depends on planner/packing/heaviest_clique.h.
#pragma once

#include "planner/packing/heaviest_clique.h"

namespace zeroplan::planner {

/// From what is live at a position, if it is at least half as much as anywhere, cliques grow in four ways until nothing
/// can join: the largest first, the nearest in time first, what comes later first, what came earlier first. No clique
/// comes twice. \param most_work  elementary operations, about; the heaviest positions come first \returns at least one
/// clique if there is a buffer; in order of the positions' weights, heaviest first
std::vector<SeatedClique> cover_by_cliques(const ConflictIndex& index, std::uint64_t most_work);

}  // namespace zeroplan::planner
