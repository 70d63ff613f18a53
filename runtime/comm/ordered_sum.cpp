#include "runtime/comm/ordered_sum.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/storage.h"
#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

using kernels::cpu::from_float;
using kernels::cpu::to_float;

/// Elements summed at once, held in the first-level cache.
constexpr std::size_t kBlock = 2048;

template <class T>
void sum(std::span<const void* const> parts, std::size_t count, bool accumulate, T* out) {
  std::array<float, kBlock> block;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    const T* part = static_cast<const T*>(parts[0]) + first;
    for (std::size_t i = 0; i < n; ++i) block[i] = to_float(part[i]);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      part = static_cast<const T*>(parts[p]) + first;
      for (std::size_t i = 0; i < n; ++i) block[i] += to_float(part[i]);
    }
    T* to = out + first;
    if (accumulate) {
      for (std::size_t i = 0; i < n; ++i) from_float(to_float(to[i]) + block[i], to[i]);
    } else {
      for (std::size_t i = 0; i < n; ++i) from_float(block[i], to[i]);
    }
  }
}

}  // namespace

void ordered_sum(DType dtype, std::span<const void* const> parts, std::size_t count, bool accumulate, void* out) {
  ZP_CHECK(!parts.empty());
  kernels::cpu::require_storage(dtype);
  kernels::cpu::with_storage(dtype, [&]<class T>(T) { sum(parts, count, accumulate, static_cast<T*>(out)); });
}

}  // namespace zeroplan::runtime
