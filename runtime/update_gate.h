// How far the lanes may run ahead. Main type: UpdateGate. Depends on timelines only.
#pragma once

#include "runtime/timeline.h"

namespace zeroplan::runtime {

/// Shared by all ranks of a process for one run of updates, which have no barrier between them: each begins once it was
/// approved. An approval is never taken back, so that all lanes of all ranks see the same decision. Close it before the
/// run is waited for.
class UpdateGate {
 public:
  /// Lets so many more updates begin.
  void approve(std::uint64_t updates) { approved_.advance(updates); }
  /// No more approvals: lanes end their run when they have done what was approved. Call it once.
  void close() { approved_.interrupt(); }

  /// Waits until the update of that number (from 0 within the run) may begin. \returns false if it never will.
  bool admits(std::uint64_t number) const {
    approved_.wait(number + 1);
    const std::uint64_t value = approved_.value();
    return number < (value >= Timeline::kInterrupted ? value - Timeline::kInterrupted : value);
  }

 private:
  Timeline approved_;
};

}  // namespace zeroplan::runtime
