// Elements of any floating type read and written as double, for the reference kernels. Depends on models/core only.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

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

/// fp32 to IEEE binary16, round to nearest even by the definition of the format; a NaN stays one.
inline std::uint16_t to_fp16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto with_sign = [&](double bits) { return static_cast<std::uint16_t>(sign | static_cast<unsigned>(bits)); };
  if (std::isnan(value)) return with_sign(0x7e00);
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude >= 65520) return with_sign(0x7c00);
  if (magnitude < 0x1p-14) return with_sign(std::nearbyint(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  // 1024 to 2048 units in the last place; 2048 carries into the exponent.
  return with_sign((exponent + 14) * 1024 + std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
}
inline float from_fp16(std::uint16_t value) {
  const int exponent = value >> 10 & 31;
  const int fraction = value & 1023;
  double magnitude = std::ldexp(fraction, -24);
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent > 0) {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>((value & 0x8000) != 0 ? -magnitude : magnitude);
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
    case DType::kFp16:
      return from_fp16(static_cast<const std::uint16_t*>(data)[i]);
    default:
      throw Error(ErrorCode::kUnsupported, "no kernel for elements of type " + std::string(to_string(type)));
  }
}

/// Sets element `i`, rounded once from double (16-bit types: through fp32).
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
    case DType::kFp16:
      static_cast<std::uint16_t*>(data)[i] = to_fp16(static_cast<float>(value));
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
