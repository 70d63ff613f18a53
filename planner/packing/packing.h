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

/// One of the times during which a buffer is live, [first, last] on an approximate linear clock.
struct Stay {
  std::uint32_t buffer = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Buffers of which any two may or may not share addresses.
struct ConflictInstance {
  std::vector<std::uint64_t> sizes;                   ///< bytes, rounded up to the alignment by the caller
  std::vector<std::vector<std::uint32_t>> conflicts;  ///< symmetric, ascending, without the buffer itself
  std::vector<Stay> stays;                 ///< at least one of every buffer, in any order; they guide the search only
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

/// Work in elementary operations, about: some tenths of a second.
constexpr std::uint64_t kThoroughPacking = 100'000'000;
/// Some hundredths of a second.
constexpr std::uint64_t kQuickPacking = 10'000'000;

/// Tries greedy orders first and stops as soon as the height meets the bound; only if none does, it searches further.
/// Pinned buffers keep their place, and where there are any, only greedy orders are tried.
/// \param most_work  for the search, elementary operations, about. \throws as heaviest_clique; Error{kInvalidInput} if
/// two pinned buffers that conflict overlap
ConflictPacking pack_conflicts(const ConflictInstance& instance, std::uint64_t most_work = kThoroughPacking);

}  // namespace zeroplan::planner
