#include "runtime/interrupt.h"

namespace zeroplan::runtime {
namespace {

/// A handler can reach nothing else.
std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void request(int) {
  requested.store(true);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  requested.store(false);
  struct sigaction action = {};
  action.sa_handler = request;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &old_interrupt_);
  ::sigaction(SIGTERM, &action, &old_terminate_);
  ::sigaction(SIGUSR1, &action, &old_user_);
}

InterruptFlag::~InterruptFlag() {
  ::sigaction(SIGINT, &old_interrupt_, nullptr);
  ::sigaction(SIGTERM, &old_terminate_, nullptr);
  ::sigaction(SIGUSR1, &old_user_, nullptr);
}

const std::atomic<bool>& InterruptFlag::flag() const {
  return requested;
}

}  // namespace zeroplan::runtime
