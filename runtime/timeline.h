// A counter that only grows and on which threads wait: the one form of synchronisation between lanes.
// Main type: Timeline. Depends on nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace zeroplan::runtime {

/// A timeline semaphore. No call allocates memory. Waiting threads spin briefly, yield, then sleep, because ranks may
/// have more threads than the machine has cores.
class Timeline {
 public:
  /// What `interrupt` adds: no count of finished tasks comes near.
  static constexpr std::uint64_t kInterrupted = std::uint64_t{1} << 62;

  /// Adds to the counter; what was written before is visible to whoever waits for the new value.
  void advance(std::uint64_t by = 1) {
    value_.fetch_add(by, std::memory_order_release);
    value_.notify_all();
  }
  /// Ends all present and future waits. Call it once.
  void interrupt() { advance(kInterrupted); }
  bool interrupted() const { return value_.load(std::memory_order_acquire) >= kInterrupted; }
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }
  /// Returns once the counter is `target` or more. \returns false if the timeline was interrupted.
  bool wait(std::uint64_t target) const;

 private:
  alignas(64) std::atomic<std::uint64_t> value_{0};
};

}  // namespace zeroplan::runtime
