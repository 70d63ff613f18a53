#include "runtime/checkpoint/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace zeroplan::runtime {

std::string checksum(std::span<const std::byte> data) {
  return fmt::format("{:016x}", XXH3_64bits(data.data(), data.size()));
}

}  // namespace zeroplan::runtime
