// Packs buffers into one arena. Purpose: offsets such that buffers that are live at once never share addresses, the
// arena as low as possible, and a bound that says how low it can be. Main types: IntervalBuffer with pack_intervals
// (lives are exact intervals of one clock), ConflictInstance with pack_conflicts (any two buffers may or may not
// conflict, as in plans, where happens-before decides). Deterministic: the same input gives the same output, unless the
// time limit cuts the search. Must not depend on the plan: models/core only.
//
// Greedy orders after Pisarchyk & Lee, arXiv 2001.03288; canonical solutions (every buffer rests on another one or on
// the bottom) after Moffitt, "MiniMalloc", ASPLOS 2023.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace zeroplan::planner {

/// A buffer that is live in [first, last).
struct IntervalBuffer {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint64_t size = 0;  ///< bytes
};

struct IntervalOptions {
  std::uint64_t alignment = 1;            ///< offsets are multiples of it; not 0
  std::optional<std::uint64_t> capacity;  ///< stop at the first packing within it; without it, the lowest one is sought
  std::chrono::duration<double> time_limit{60.0};
};

enum class PackingOutcome {
  kPacked,      ///< within the capacity, or without one: a packing
  kInfeasible,  ///< proven: no packing within the capacity exists
  kUnknown,     ///< the search ended at its limit; the offsets are the best packing found, above the capacity
};

struct IntervalPacking {
  PackingOutcome outcome = PackingOutcome::kUnknown;
  std::vector<std::uint64_t> offsets;  ///< per buffer, a valid packing in any case
  std::uint64_t height = 0;            ///< end of the highest buffer
  std::uint64_t lower_bound = 0;  ///< no packing is lower; equal to the height where that is proven to be the lowest
};

/// \throws Error{kInvalidInput} for an empty life, an alignment of 0 or a time limit that is negative or no number;
///   Error{kOverflow} if all sizes together leave 63 bits
IntervalPacking pack_intervals(std::span<const IntervalBuffer> buffers, const IntervalOptions& options = {});

constexpr std::uint64_t kNotPinned = UINT64_MAX;

/// Buffers of which any two may or may not share addresses.
struct ConflictInstance {
  std::vector<std::uint64_t> sizes;                   ///< bytes, rounded up to the alignment by the caller
  std::vector<std::vector<std::uint32_t>> conflicts;  ///< symmetric, ascending, without the buffer itself
  std::vector<std::uint32_t> first_position;  ///< approximate linear life [first, last], which guides orders only
  std::vector<std::uint32_t> last_position;
  std::vector<std::uint64_t> pinned = {};  ///< fixed offset or kNotPinned; empty: nothing is pinned
};

/// Buffers that conflict with one another, each with each.
struct Clique {
  std::vector<std::uint32_t> members;  ///< ascending
  std::uint64_t weight = 0;            ///< bytes; no arena can be smaller
};

struct ConflictPacking {
  std::vector<std::uint64_t> offsets;
  std::uint64_t height = 0;
  std::vector<std::uint32_t> clique;  ///< ascending
  std::uint64_t clique_weight = 0;    ///< no arena can be smaller
};

/// Builds the lists of an instance from a relation: `conflicts(i, j)` is asked for i < j only. Cost: n² / 2 calls.
template <class Relation>
std::vector<std::vector<std::uint32_t>> conflict_lists(std::uint32_t count, Relation&& conflicts) {
  std::vector<std::vector<std::uint32_t>> lists(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t j = i + 1; j < count; ++j) {
      if (!conflicts(i, j)) continue;
      lists[i].push_back(j);
      lists[j].push_back(i);
    }
  }
  return lists;
}

/// A heavy clique: exact where the lives are intervals of one clock, else the best found from the heaviest positions by
/// exchange. \throws Error{kInternal} for lists that contradict the sizes, Error{kOverflow} if all sizes together leave
/// 63 bits
Clique heaviest_clique(const ConflictInstance& instance);

/// Stops as soon as the height meets the bound, at the latest after `most_rounds` of improvement. Pinned buffers keep
/// their place. \throws as heaviest_clique; Error{kInvalidInput} if two pinned buffers that conflict overlap
ConflictPacking pack_conflicts(const ConflictInstance& instance, std::uint32_t most_rounds = 200);

}  // namespace zeroplan::planner
