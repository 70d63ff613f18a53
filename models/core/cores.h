// How many cores this process may use. Depends on nothing.
#pragma once

#include <cstdint>

namespace zeroplan {

/// The cores that the scheduler gives this process: its affinity mask, and in a container no more than its quota
/// (cgroup v2), rounded down. At least 1.
std::uint64_t usable_cores();

namespace detail {
/// Whole cores in the content of cpu.max, "200000 100000" or "max 100000"; 0 where it states no limit or is unreadable.
std::uint64_t cores_of_quota(const char* content);
}  // namespace detail

}  // namespace zeroplan
