// Polling that leaves the cores to those who work. Main type: Backoff. Depends on stop_signal.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/stop_signal.h"

namespace zeroplan::runtime {

/// The pauses of one wait: yields first, then sleeps that grow to 200 microseconds.
class Backoff {
 public:
  void pause() {
    constexpr int kYields = 64;
    if (turns_ < kYields) {
      ++turns_;
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, std::chrono::microseconds(200));
  }

 private:
  int turns_ = 0;
  std::chrono::microseconds sleep_{10};
};

/// After a connection broke: gives whoever watches the peers time to say which of them is gone. \throws Stopped then
inline void wait_for_stop(const StopSignal& stop) {
  constexpr int kTurns = 1000;
  for (int turn = 0; turn < kTurns; ++turn) {
    stop.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace zeroplan::runtime
