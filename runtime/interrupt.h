// Ctrl-C, SIGTERM and SIGUSR1 (the one that mpirun and srun hand on) as a flag that the training loop asks. Main type:
// InterruptFlag.
#pragma once

#include <atomic>
#include <csignal>

namespace zeroplan::runtime {

/// While one exists, SIGINT, SIGTERM and SIGUSR1 set its flag; a second signal ends the process as the system would.
/// One at a time.
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
  struct sigaction old_user_ = {};
};

}  // namespace zeroplan::runtime
