#include "kernels/workers.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "models/core/error.h"

namespace zeroplan::kernels {
namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

/// Returns once `value` differs from `old`: spins for some microseconds, then sleeps. Yielding in between costs whole
/// time slices when the machine has more threads than cores.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  constexpr int kSpins = 1000;
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

Workers::Workers(int count) : count_(count) {
  ZP_CHECK(count >= 1);
  threads_ = std::make_unique<std::thread[]>(static_cast<std::size_t>(count - 1));
  int started = 0;
  try {
    for (; started < count - 1; ++started) {
      threads_[static_cast<std::size_t>(started)] = std::thread([this, worker = started + 1] { serve(worker); });
    }
  } catch (...) {
    stop(started);
    throw;
  }
}

Workers::~Workers() {
  stop(count_ - 1);
}

void Workers::stop(int started) {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (int i = 0; i < started; ++i) threads_[static_cast<std::size_t>(i)].join();
}

void Workers::run_raw(Call call, void* context, int parts) {
  if (parts == 1) {
    call(context, 0);
    return;
  }
  call_ = call;
  context_ = context;
  parts_ = parts;
  pending_.store(static_cast<std::uint32_t>(count_ - 1), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  call(context, 0);
  for (std::uint32_t left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    wait_for_change(pending_, left);
  }
}

void Workers::serve(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_for_change(generation_, seen);
    ++seen;  // the owner waits for all before it raises the generation again, so none is ever skipped
    if (stopping_) return;
    if (worker < parts_) call_(context_, worker);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace zeroplan::kernels
