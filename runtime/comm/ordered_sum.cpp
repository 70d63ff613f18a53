#include "runtime/comm/ordered_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

/// Elements summed at once, held in the first-level cache.
constexpr std::size_t kBlock = 2048;

float load(const float* from, std::size_t i) {
  return from[i];
}
float load(const std::uint16_t* from, std::size_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
}
void store(float* to, std::size_t i, float value) {
  to[i] = value;
}
void store(std::uint16_t* to, std::size_t i, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = value != value;
  to[i] = is_nan ? static_cast<std::uint16_t>((bits >> 16) | 0x40u)
                 : static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <class T>
void sum(std::span<const void* const> parts, std::size_t count, bool accumulate, T* out) {
  std::array<float, kBlock> block;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    const T* part = static_cast<const T*>(parts[0]) + first;
    for (std::size_t i = 0; i < n; ++i) block[i] = load(part, i);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      part = static_cast<const T*>(parts[p]) + first;
      for (std::size_t i = 0; i < n; ++i) block[i] += load(part, i);
    }
    T* to = out + first;
    if (accumulate) {
      for (std::size_t i = 0; i < n; ++i) store(to, i, load(to, i) + block[i]);
    } else {
      for (std::size_t i = 0; i < n; ++i) store(to, i, block[i]);
    }
  }
}

}  // namespace

void ordered_sum(DType dtype, std::span<const void* const> parts, std::size_t count, bool accumulate, void* out) {
  ZP_CHECK(!parts.empty());
  if (dtype == DType::kFp32) {
    sum(parts, count, accumulate, static_cast<float*>(out));
  } else if (dtype == DType::kBf16) {
    sum(parts, count, accumulate, static_cast<std::uint16_t*>(out));
  } else {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("gradients of type {} cannot be reduced on the CPU", to_string(dtype)));
  }
}

}  // namespace zeroplan::runtime
