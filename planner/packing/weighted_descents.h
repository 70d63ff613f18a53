// A search for a packing within a capacity. Main type: WeightedDescents. Depends on planner/packing/clique_cover.h.
//
// Buffers are placed by addresses that never fall, each on top of what it conflicts with (canonical solutions, Moffitt,
// "MiniMalloc", ASPLOS 2023). A descent ends at once when some clique of the cover cannot be completed within the
// capacity any more: its free members all begin too high. These members then gain weight, so that they are placed
// earlier (weights learned from constraints that failed: Boussemart, Hemery, Lecoutre and Sais, "Boosting systematic
// search by weighting constraints", ECAI 2004); the search steps back and chooses something else, and after a number of
// failures it starts anew with the weights that it has learned.
#pragma once

#include <optional>
#include <random>

#include "planner/packing/clique_cover.h"

namespace zeroplan::planner {

class WeightedDescents {
 public:
  /// \param cover  outlives the search
  WeightedDescents(const ConflictIndex& index, std::span<const SeatedClique> cover);

  /// Offsets of a packing that is no higher than the capacity, if one is found.
  /// \param most_work  elementary operations, about
  std::optional<std::vector<std::uint64_t>> find(std::uint64_t capacity, std::uint64_t most_work);

 private:
  /// One way to choose what is placed next, with the weights that it has learned.
  struct Style {
    bool latest_first = false;        ///< of equals, the buffer with the higher number comes first
    std::int64_t reluctance = 0;      ///< to leave room below: how much a distance counts against weights
    std::int64_t lesson = 0;          ///< what a failure adds to a weight, up to twice that
    std::uint32_t most_failures = 1;  ///< after which a descent is given up
    std::vector<std::int64_t> weights = {};
    std::minstd_rand random = std::minstd_rand(1);  ///< its own, so that styles do not influence one another
  };

  /// A placement that can be taken back.
  struct Placement {
    std::uint32_t buffer = 0;
    std::uint64_t floor = 0;             ///< before it
    std::uint64_t lowest = 0;            ///< of the buffer, before it
    std::size_t raised = 0;              ///< entries of `raised_` before it
    std::vector<std::uint32_t> refused;  ///< what failed in its stead
  };
  struct Raise {
    std::uint32_t buffer = 0;
    std::uint64_t lowest = 0;  ///< before
  };

  void start();
  bool descend(Style& style);
  /// Position within `waiting_`; nothing if all that could come next was refused.
  std::optional<std::size_t> choose(const Style& style) const;
  /// \returns whether the rest may still fit
  bool advance(Style& style, std::size_t chosen);
  /// Takes placements back until something else can be tried. \returns whether there is anything
  bool retreat();
  void place(std::uint32_t buffer);
  void take_back(const Placement& placement);
  /// A clique that cannot be completed.
  std::optional<std::size_t> failed_clique();
  void learn(Style& style, std::size_t clique);
  std::int64_t in_units(std::uint64_t bytes) const;

  const ConflictIndex& index_;
  std::span<const SeatedClique> cover_;
  std::vector<std::vector<std::uint32_t>> cliques_of_;  ///< per buffer
  std::vector<std::uint64_t> heaviest_of_;              ///< per buffer: weight of the heaviest clique that it is in

  std::uint64_t capacity_ = 0;
  std::uint64_t work_ = 0;
  std::uint64_t floor_ = 0;  ///< the address of the last placement
  std::vector<Placement> placements_;
  std::vector<Raise> raised_;
  std::vector<std::uint32_t> refused_;  ///< for the next placement
  std::vector<std::uint32_t> waiting_;  ///< not placed yet, by number
  std::vector<std::uint8_t> is_placed_;
  std::vector<std::uint64_t> lowest_;    ///< where a buffer can begin at the lowest; of a placed one: its offset
  std::vector<std::uint64_t> unplaced_;  ///< per clique, bytes
  std::vector<std::uint32_t> witness_;   ///< per clique, a member that may be next within the capacity
};

}  // namespace zeroplan::planner
