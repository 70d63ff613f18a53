// Ranks that do the same thing at the same time, timed. Purpose: kernels are measured as training runs them: each rank
// with its share of the cores, its peers busy beside it. Main types: RankBody, RankTeam. Depends on
// kernels/workers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/workers.h"
#include "models/core/units.h"

namespace zeroplan::runtime {

/// What is timed: one call.
using RankBody = std::function<void(kernels::Workers& workers)>;

/// How long and how often to measure.
struct Effort {
  int repeats = 9;                ///< the median of so many
  Seconds least = Seconds(1e-3);  ///< each repeat makes so many calls that it takes at least so long
};

/// `ranks` threads, each with `threads` workers, which live as long as the team: threads that just started may share a
/// core for longer than a short measurement takes.
class RankTeam {
 public:
  RankTeam(std::size_t ranks, int threads, Effort effort);

  std::size_t ranks() const { return workers_.size(); }
  int threads() const { return threads_; }

  /// Calls `prepare(rank)` on each rank's thread, then its body on all ranks at once.
  /// \returns the median over repeats of the time of one call, averaged over the ranks
  /// \throws whatever a body throws, after all ranks have ended
  Seconds time(const std::function<RankBody(std::size_t rank)>& prepare) const;

 private:
  std::vector<std::unique_ptr<kernels::Workers>> workers_;  ///< by rank
  int threads_;
  Effort effort_;
};

}  // namespace zeroplan::runtime
