// Exact search for a packing of interval buffers within a capacity. Main types: SearchProblem, CanonicalSearch.
//
// A section is a stretch of time in which the same buffers are live; only sections that no other one contains matter.
// Each has a floor: everything below it is decided. In a canonical packing every buffer rests on the bottom or on
// another buffer, so in a valley (a run of sections at one floor between higher ones) either one of the buffers that
// fit into the valley stands on its floor over a given section, or that section stays empty up to a level that can be
// computed. The search branches on the section with the fewest such answers. Floors rise by propagation; a section
// fails when what is still to be placed in it cannot end within the capacity. Where no unplaced buffer crosses from one
// section to the next, both sides are solved apart. States that failed are remembered across restarts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace zeroplan::planner {

/// All sizes and the capacity in the same unit.
struct SearchProblem {
  struct Item {
    std::uint32_t first = 0;  ///< sections [first, last)
    std::uint32_t last = 0;
    std::int64_t size = 0;  ///< above 0
  };
  std::vector<Item> items;
  std::uint32_t sections = 0;
  std::int64_t capacity = 0;
};

enum class SearchOutcome { kFound, kInfeasible, kLimit };

/// Searches of one problem on several threads. The one that needs the fewest nodes wins, whichever thread is faster, so
/// that the same input gives the same output.
class SearchRace {
 public:
  void finish(std::uint64_t nodes) {
    std::uint64_t before = fewest_nodes_.load();
    while (nodes < before && !fewest_nodes_.compare_exchange_weak(before, nodes)) {
    }
  }
  bool is_won_before(std::uint64_t nodes) const { return fewest_nodes_.load() < nodes; }

 private:
  std::atomic<std::uint64_t> fewest_nodes_{UINT64_MAX};
};

class CanonicalSearch {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// \param seed  of the preferences after the first attempts
  /// \param race  may be null; else the search ends when another one has won
  CanonicalSearch(const SearchProblem& problem, Deadline deadline, std::uint64_t seed = 0, SearchRace* race = nullptr);

  /// Restarts with other preferences until a packing is found, the tree is exhausted, the race is lost, or the deadline
  /// passes.
  SearchOutcome run();

  /// Per item; valid after kFound.
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  std::uint64_t nodes() const { return nodes_; }

 private:
  enum class Answer { kYes, kNo, kStop };
  enum class Change : std::uint8_t { kFloor, kLowest, kPlaced };
  struct Undo {
    Change what;
    std::uint32_t index;
    std::int64_t before;
  };
  struct Range {
    std::uint32_t begin;
    std::uint32_t end;
  };
  struct Key {
    std::uint64_t low;
    std::uint64_t high;
    friend bool operator==(const Key&, const Key&) = default;
  };
  /// The branching at a node: who may stand on the floor of the section, and where it ends if nobody does.
  struct Branching {
    std::uint32_t section = 0;
    std::vector<std::uint32_t> candidates;
    std::int64_t level_if_empty = 0;
  };

  std::span<const std::uint32_t> active(std::uint32_t section) const;
  bool raise_floor(std::uint32_t section, std::int64_t floor);
  bool place(std::uint32_t item);
  bool propagate();
  bool fits_in_time(std::uint32_t section);
  void mark(std::uint32_t section);
  void undo_to(std::size_t mark);
  void link(std::uint32_t item, bool unplaced);

  bool is_over() const;
  SearchOutcome restart_until_known();
  Answer solve(Range range, std::uint32_t depth);
  Answer branch(Range range, std::uint32_t depth);
  Branching choose(Range range);
  std::uint32_t choose_section(Range range) const;
  std::int64_t level_if_empty(std::uint32_t section) const;
  void order(std::vector<std::uint32_t>& candidates);
  Key key_of(Range range) const;
  void restart_with(std::uint32_t attempt);
  std::uint64_t random();

  const SearchProblem& problem_;
  Deadline deadline_;
  SearchRace* race_;
  std::uint64_t nodes_ = 0;
  std::uint64_t node_limit_ = 0;
  std::uint64_t random_state_;

  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> lowest_;  ///< per item: no lower offset is left
  std::vector<std::uint8_t> is_placed_;
  std::vector<std::int64_t> floors_;     ///< per section
  std::vector<std::int64_t> remaining_;  ///< per section: sizes of its unplaced items
  std::vector<std::uint32_t> crossing_;  ///< unplaced items that are in this section and the next
  std::vector<std::uint32_t> members_;   ///< per section a row of items, the unplaced ones in front
  std::vector<std::uint32_t> row_begin_;
  std::vector<std::uint32_t> row_live_;  ///< unplaced ones of each row
  std::vector<std::uint32_t> place_in_row_begin_;
  std::vector<std::uint32_t> place_in_row_;  ///< of an item in each of its sections
  std::vector<Undo> trail_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::uint8_t> is_queued_;
  std::vector<std::uint32_t> touched_;  ///< sections that propagation looked at
  std::vector<std::uint8_t> is_touched_;
  std::vector<double> weights_;     ///< per section: how often it failed
  std::vector<double> preference_;  ///< per item, for the order of candidates
  std::vector<std::pair<std::int64_t, std::int64_t>> scratch_;
  std::vector<Key> item_keys_;
  std::vector<Key> unplaced_keys_;  ///< per section: sum of the keys of unplaced items that begin in it
  std::vector<Key> failed_;         ///< states without a solution, by hash
};

}  // namespace zeroplan::planner
