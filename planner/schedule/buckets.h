// Cuts shards into collectives of bounded size, across groups. Main type: Bucket.
#pragma once

#include <vector>

#include "planner/plan.h"

namespace zeroplan::planner {

/// What one collective moves, and the last of the groups (by position in the given order) that it needs complete.
struct Bucket {
  std::vector<ShardPiece> pieces;
  std::size_t last_position = 0;
};

/// Fills buckets in the order of the groups. A collective moves ranks x (end - begin) elements of each piece.
/// \param most_elements  of one collective
/// \param flag  names the setting in the error
/// \throws Error{kUsage} if not even the smallest piece fits
std::vector<Bucket> fill_buckets(const Partition& partition, const std::vector<std::uint32_t>& groups,
                                 std::uint64_t most_elements, std::string_view flag);

}  // namespace zeroplan::planner
