// Where the time of a rank's steps goes. Purpose: measured seconds by kind of operation, for those who make kernels or
// plans faster. Main type: StepProfile. Depends on planner/plan.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "planner/plan.h"

namespace zeroplan::runtime {

/// Times of one rank, by the kind of op in compute tasks and by the kind of all other tasks. Lanes add at any time;
/// nothing is allocated.
class StepProfile {
 public:
  using Clock = std::chrono::steady_clock;

  struct Row {
    std::string name;  ///< "linear_forward", "update", "gather"
    std::uint64_t calls = 0;
    Seconds time;  ///< of all calls
  };

  void add(models::OpKind kind, Clock::duration time) { add(ops_.at(static_cast<std::size_t>(kind)), time); }
  void add(planner::TaskKind kind, Clock::duration time) { add(tasks_.at(static_cast<std::size_t>(kind)), time); }

  /// The kinds that were called, longest first. While lanes run, a row may miss the call under way.
  std::vector<Row> rows() const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::int64_t> nanoseconds{0};
  };

  static void add(Entry& entry, Clock::duration time) {
    entry.calls.fetch_add(1, std::memory_order_relaxed);
    entry.nanoseconds.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(),
                                std::memory_order_relaxed);
  }

  std::array<Entry, static_cast<std::size_t>(models::OpKind::kLossSum) + 1> ops_;
  std::array<Entry, static_cast<std::size_t>(planner::TaskKind::kSave) + 1> tasks_;
};

}  // namespace zeroplan::runtime
