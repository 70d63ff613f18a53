// Ctrl-C and SIGTERM as a flag that the training loop asks. Main type: InterruptFlag.
#pragma once

#include <atomic>
#include <csignal>

namespace zeroplan::runtime {

/// While one exists, SIGINT and SIGTERM set its flag; a second signal ends the process as the system would. One at a
/// time.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  struct sigaction old_interrupt_ = {};
  struct sigaction old_terminate_ = {};
};

}  // namespace zeroplan::runtime
