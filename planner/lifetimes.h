// When buffers hold values, and which of them may do so at once. Main types: Life, ConflictGraph. Depends on
// happens_before.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/happens_before.h"
#include "planner/packing/packing.h"

namespace zeroplan::planner {

/// One stay of a buffer: within one step of a run, or one cycle for buffers that span it.
struct Life {
  BufferId buffer = kNoBuffer;
  LaneClock last{};                  ///< per lane, the place of its last user; 0 = none there
  LaneClock entry{};                 ///< per lane, the tasks that are sure to have ended before its first users begin
  std::uint32_t first_position = 0;  ///< of its users, in the run's order
  std::uint32_t last_position = 0;
};

/// Every user of a happens before every user of b.
inline bool ends_before(const Life& a, const Life& b) {
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    if (a.last[lane] > b.entry[lane]) return false;
  }
  return true;
}

/// Which buffers of one tier must not share addresses.
struct ConflictGraph {
  std::vector<BufferId> buffers;                      ///< the tier's buffers that are not always live, by first use
  std::vector<std::vector<std::uint32_t>> conflicts;  ///< per index into `buffers`, ascending
  std::vector<Stay> stays;                            ///< by index into `buffers`, in an order of all runs
};

/// The lives in one run, by first position.
std::vector<Life> lives_in(const Plan& plan, const TaskRun& run);

/// \param runs  those of run_sequences
ConflictGraph find_conflicts(const Plan& plan, const std::vector<TaskRun>& runs, Tier tier);

/// Sets `first` and `last` of every buffer that is not always live.
void set_live_ranges(Plan& plan);

}  // namespace zeroplan::planner
