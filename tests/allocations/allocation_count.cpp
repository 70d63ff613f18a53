#include "tests/allocations/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "models/core/error.h"
#include "runtime/step_scope.h"

// The allocator of the C library, by the names that it exports for this purpose.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace zeroplan::testing {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kMostMappings = 256;

struct Counters {
  std::atomic<bool> is_watching{false};
  std::atomic<bool> is_steady{false};
  std::atomic<long> watcher{0};  ///< thread that made the watch
  std::atomic<std::uint64_t> in_training_steps{0};
  std::atomic<std::uint64_t> by_other_threads{0};
  std::atomic<std::uint64_t> heap_above_1_mib{0};
  std::atomic<std::size_t> mappings{0};
  std::size_t mapped[kMostMappings] = {};
};

constinit Counters counters;

void count_heap(std::size_t size) {
  if (!counters.is_watching.load(std::memory_order_relaxed)) return;
  if (size > kLarge) ++counters.heap_above_1_mib;
  if (runtime::is_inside_training_step()) ++counters.in_training_steps;
  if (counters.is_steady && ::syscall(SYS_gettid) != counters.watcher) ++counters.by_other_threads;
}

void count_mapping(std::size_t size, int flags) {
  if (!counters.is_watching || size <= kLarge || (flags & MAP_ANONYMOUS) == 0) return;
  const std::size_t at = counters.mappings++;
  if (at < kMostMappings) counters.mapped[at] = size;
}

}  // namespace

AllocationWatch::AllocationWatch() {
  ZP_CHECK(!counters.is_watching);
  counters.in_training_steps = 0;
  counters.by_other_threads = 0;
  counters.heap_above_1_mib = 0;
  counters.mappings = 0;
  counters.watcher = ::syscall(SYS_gettid);
  counters.is_watching = true;
}

AllocationWatch::~AllocationWatch() {
  counters.is_steady = false;
  counters.is_watching = false;
}

void AllocationWatch::arm_steady_state() {
  counters.is_steady = true;
}

void AllocationWatch::disarm_steady_state() {
  counters.is_steady = false;
}

AllocationCounts AllocationWatch::counts() const {
  const std::size_t mappings = counters.mappings;
  ZP_CHECK(mappings <= kMostMappings);
  return {counters.in_training_steps,
          counters.by_other_threads,
          counters.heap_above_1_mib,
          {counters.mapped, counters.mapped + mappings}};
}

}  // namespace zeroplan::testing

extern "C" {

void* malloc(std::size_t size) {
  zeroplan::testing::count_heap(size);
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  zeroplan::testing::count_heap(count * size);
  return __libc_calloc(count, size);
}

void* realloc(void* block, std::size_t size) {
  zeroplan::testing::count_heap(size);
  return __libc_realloc(block, size);
}

void* memalign(std::size_t alignment, std::size_t size) {
  zeroplan::testing::count_heap(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  zeroplan::testing::count_mapping(size, flags);
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, file, offset));
}

}  // extern "C"
