// What this program allocates. Purpose: every malloc, its kin and mmap of the program go through counters, so that
// tests can say what the runtime allocates and when. Main types: AllocationWatch. The counters are the one global of
// the tests: an allocator has no other place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroplan::testing {

/// What happened while a watch existed.
struct AllocationCounts {
  std::uint64_t in_training_steps = 0;  ///< by threads of lanes between the begin and the end of a step
  std::uint64_t by_other_threads = 0;   ///< by any thread but the one that made the watch, after `arm_steady_state`
  std::uint64_t heap_above_1_mib = 0;   ///< single heap blocks of more than 1 MiB
  std::vector<std::size_t> mapped_above_1_mib;  ///< sizes of mappings without a file of more than 1 MiB
};

/// Counts from its construction on; one at a time.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  /// From here to `disarm_steady_state`, allocations of other threads count.
  void arm_steady_state();
  void disarm_steady_state();
  AllocationCounts counts() const;
};

}  // namespace zeroplan::testing
