#include "models/core/cores.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include <sched.h>

namespace zeroplan {
namespace {

std::uint64_t cores_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<std::uint64_t>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();  // more cores than a cpu_set_t has places for
}

std::uint64_t cores_of_container() {
  std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r");
  if (file == nullptr) return 0;
  char line[64] = {};
  const bool has_line = std::fgets(line, sizeof(line), file) != nullptr;
  std::fclose(file);
  return has_line ? detail::cores_of_quota(line) : 0;
}

}  // namespace

namespace detail {

std::uint64_t cores_of_quota(const char* content) {
  unsigned long long quota = 0;
  unsigned long long period = 0;
  if (std::sscanf(content, "%llu %llu", &quota, &period) != 2 || period == 0) return 0;
  return std::max<std::uint64_t>(1, quota / period);
}

}  // namespace detail

std::uint64_t usable_cores() {
  std::uint64_t cores = std::max<std::uint64_t>(1, cores_of_affinity());
  if (const std::uint64_t quota = cores_of_container(); quota != 0) cores = std::min(cores, quota);
  return cores;
}

}  // namespace zeroplan
