// Ways to cut a rank's share of the global batch into passes. Main type: Batch.
#pragma once

#include <cstdint>
#include <vector>

namespace zeroplan::planner {

/// Sequences of one pass, and passes of one update.
struct Batch {
  std::uint64_t micro = 1;
  std::uint64_t accumulation = 1;
  friend bool operator==(const Batch&, const Batch&) = default;
};

/// Micro-batches that divide `per_rank` sequences, ascending from 1, each at least half as large again as the one
/// before, so that few of them cover what a device may hold. \param most  how many; at least 1
std::vector<Batch> batches_of(std::uint64_t per_rank, std::size_t most);

}  // namespace zeroplan::planner
