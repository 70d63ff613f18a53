// Ranks as threads of one process. Purpose: real sharding and real collectives without a network, deterministic, for
// tests, the quickstart and single machines. Main types: LoopbackGroup, LoopbackCollectives. Needs no staging memory.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/comm/collectives.h"
#include "runtime/stop_signal.h"

namespace zeroplan::runtime {

/// What the ranks of a process share. Create it before the ranks' threads; it must outlive them.
class LoopbackGroup {
 public:
  /// \param stop  ends all collectives when a rank fails
  LoopbackGroup(std::uint64_t ranks, StopSignal& stop);

  std::uint64_t size() const { return ranks_; }
  /// The end of one rank.
  std::unique_ptr<Collectives> rank(std::uint64_t rank);

 private:
  friend class LoopbackCollectives;

  /// One channel: who is in which call, and how many ranks have come to each meeting.
  struct Meeting {
    std::vector<const CollectiveCall*> calls;  ///< per rank
    Timeline arrivals;                         ///< grows by `ranks` at each meeting point
  };

  std::uint64_t ranks_;
  std::array<Meeting, kChannels> meetings_;
};

}  // namespace zeroplan::runtime
