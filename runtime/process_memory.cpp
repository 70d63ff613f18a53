#include "runtime/process_memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace zeroplan::runtime {
namespace {

std::optional<Bytes> status_value(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::istringstream text(line.substr(key.size() + 1));
    std::uint64_t kib = 0;
    if (text >> kib) return Bytes(kib) * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Bytes> resident_peak() {
  return status_value("VmHWM");
}
std::optional<Bytes> resident_now() {
  return status_value("VmRSS");
}

}  // namespace zeroplan::runtime
