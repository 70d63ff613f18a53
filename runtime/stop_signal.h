// One failure ends everything. Purpose: the first error of any lane of any rank is kept, and all who wait wake up.
// Main types: StopSignal, Stopped. Depends on nothing but timelines.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "runtime/timeline.h"

namespace zeroplan::runtime {

/// Thrown by waits after somebody else failed; carries no message, since the first error has it.
struct Stopped {};

/// Shared by all ranks of a process. Timelines are added before threads run; everything else is safe from any thread.
class StopSignal {
 public:
  /// `timeline` must outlive this signal's last `raise`.
  void add(Timeline& timeline) { timelines_.push_back(&timeline); }

  /// Keeps the error if it is the first one, and wakes all waits.
  void raise(std::exception_ptr error);
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  /// The first error; null if there is none.
  std::exception_ptr error() const;
  /// Throws `Stopped` if an error was raised.
  void check() const {
    if (raised()) throw Stopped();
  }

 private:
  std::vector<Timeline*> timelines_;
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;  ///< guards error_
  std::exception_ptr error_;
};

}  // namespace zeroplan::runtime
