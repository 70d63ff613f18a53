// The threads of one rank. Purpose: fork-join over a fixed pool without allocating memory. Main types: Workers,
// IndexRange. Knows nothing of kernels; several pools may live in one process (ranks are threads).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>

namespace zeroplan::kernels {

/// Half-open range of indices.
struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// A fixed pool of N threads, of which the caller is number 0. Only the thread that owns the pool may call it, one call
/// at a time. Waiting threads spin for some microseconds, then sleep, because ranks may have more threads than the
/// machine has cores.
class Workers {
 public:
  /// Starts `count` - 1 threads. \param count at least 1.
  explicit Workers(int count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const { return count_; }

  /// Calls `function(worker)` once on each worker, 0 ... count - 1, and returns when all are done. `function` must not
  /// throw.
  template <class Function>
  void run(Function&& function) {
    using Plain = std::remove_reference_t<Function>;
    run_raw([](void* context, int worker) { (*static_cast<Plain*>(context))(worker); },
            const_cast<void*>(address(function)), count_);
  }

  /// Cuts [0, n) at multiples of `granule` into at most count() contiguous parts and calls `function(IndexRange)` once
  /// per part that is not empty. With one part nothing is woken up.
  template <class Function>
  void run_ranges(std::size_t n, std::size_t granule, Function&& function) {
    const std::size_t granules = n / granule + (n % granule != 0 ? 1 : 0);
    const int parts = static_cast<int>(std::min<std::size_t>(granules, static_cast<std::size_t>(count_)));
    if (parts <= 1) {
      if (n > 0) function(IndexRange{0, n});
      return;
    }
    auto part_of = [&](int worker) {
      const auto share = [&](int index) {
        return std::min(n, granules * static_cast<std::size_t>(index) / static_cast<std::size_t>(parts) * granule);
      };
      function(IndexRange{share(worker), share(worker + 1)});
    };
    run_raw([](void* context, int worker) { (*static_cast<decltype(part_of)*>(context))(worker); }, &part_of, parts);
  }

 private:
  using Call = void (*)(void* context, int worker);

  template <class T>
  static const void* address(T& object) {
    return static_cast<const void*>(std::addressof(object));
  }
  void run_raw(Call call, void* context, int parts);
  void serve(int worker);
  void stop(int started);

  int count_;
  std::unique_ptr<std::thread[]> threads_;  // count_ - 1
  // Written by the owner before `generation_` is raised, read by the others after they saw it.
  Call call_ = nullptr;
  void* context_ = nullptr;
  int parts_ = 0;
  bool stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<std::uint32_t> pending_{0};
};

}  // namespace zeroplan::kernels
