// Checksums of checkpoints.
#pragma once

#include <span>
#include <string>

namespace zeroplan::runtime {

/// XXH3, 64 bits, 16 hexadecimal digits.
std::string checksum(std::span<const std::byte> data);

}  // namespace zeroplan::runtime
