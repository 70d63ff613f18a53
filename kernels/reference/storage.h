// Elements of any floating type read and written as double, for the reference kernels. Depends on models/core only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "models/core/dtype.h"
#include "models/core/error.h"

namespace zeroplan::kernels::reference {

/// fp32 to bf16, round to nearest even; a NaN stays one.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// Element `i` of a tensor.
inline double load(DType type, const void* data, std::size_t i) {
  switch (type) {
    case DType::kFp32:
      return static_cast<const float*>(data)[i];
    case DType::kFp64:
      return static_cast<const double*>(data)[i];
    case DType::kBf16:
      return from_bf16(static_cast<const std::uint16_t*>(data)[i]);
    default:
      throw Error(ErrorCode::kUnsupported, "no kernel for elements of type " + std::string(to_string(type)));
  }
}

/// Sets element `i`, rounded once from double (bf16: through fp32).
inline void store(DType type, void* data, std::size_t i, double value) {
  switch (type) {
    case DType::kFp32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case DType::kFp64:
      static_cast<double*>(data)[i] = value;
      return;
    case DType::kBf16:
      static_cast<std::uint16_t*>(data)[i] = to_bf16(static_cast<float>(value));
      return;
    default:
      throw Error(ErrorCode::kUnsupported, "no kernel for elements of type " + std::string(to_string(type)));
  }
}

/// Sets or adds, as `accumulate` says.
inline void put(DType type, void* data, std::size_t i, double value, bool accumulate) {
  store(type, data, i, accumulate ? load(type, data, i) + value : value);
}

inline std::size_t stride_or(std::size_t stride, std::size_t dense) {
  return stride == 0 ? dense : stride;
}

}  // namespace zeroplan::kernels::reference
