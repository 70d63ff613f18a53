#include "runtime/stop_signal.h"

namespace zeroplan::runtime {

void StopSignal::raise(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::move(error);
  }
  raised_.store(true, std::memory_order_release);
  for (Timeline* timeline : timelines_) timeline->interrupt();
}

std::exception_ptr StopSignal::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace zeroplan::runtime
