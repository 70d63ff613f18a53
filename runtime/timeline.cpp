#include "runtime/timeline.h"

#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace zeroplan::runtime {
namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

}  // namespace

bool Timeline::wait(std::uint64_t target) const {
  constexpr int kSpins = 200;
  constexpr int kYields = 10;
  std::uint64_t seen = value();
  for (int i = 0; seen < target && i < kSpins + kYields; ++i) {
    if (i < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
    seen = value();
  }
  while (seen < target) {
    value_.wait(seen, std::memory_order_acquire);
    seen = value();
  }
  return seen < kInterrupted;
}

}  // namespace zeroplan::runtime
