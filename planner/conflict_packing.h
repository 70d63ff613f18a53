// Packs buffers of which any two may or may not share addresses into one arena. Main types: ConflictInstance, ConflictPacking.
// Method: several greedy orders by first fit, then repeated first fit with the buffers that form the top moved to the front; see
// Pisarchyk & Lee, arXiv 2001.03288, for greedy orders. The bound is the heaviest clique found, so a gap of 0 is a proof.
#pragma once

#include <cstdint>
#include <vector>

namespace zeroplan::planner {

/// Sizes are rounded up to the alignment by the caller; all figures in bytes.
struct ConflictInstance {
  std::vector<std::uint64_t> sizes;
  std::vector<std::vector<std::uint32_t>> conflicts;  ///< symmetric, ascending
  std::vector<std::uint32_t> first_position;          ///< approximate linear life, for orders
  std::vector<std::uint32_t> last_position;
};

struct ConflictPacking {
  std::vector<std::uint64_t> offsets;
  std::uint64_t height = 0;
  std::vector<std::uint32_t> clique;  ///< pairwise in conflict
  std::uint64_t clique_weight = 0;    ///< no arena can be smaller
};

/// Deterministic. Stops as soon as the height meets the bound, at the latest after `most_rounds` of improvement.
ConflictPacking pack_conflicts(const ConflictInstance& instance, std::uint32_t most_rounds = 200);

}  // namespace zeroplan::planner
