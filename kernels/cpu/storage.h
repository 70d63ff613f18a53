// Storage types of the CPU kernels. Purpose: the 16-bit formats as types of their own, their conversions, and the
// checks every entry point makes. Depends on models/core.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/workers.h"
#include "models/core/dtype.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cpu {

/// A bf16 number as stored.
struct Bf16 {
  std::uint16_t bits;
};

/// An IEEE binary16 number as stored.
struct Fp16 {
  std::uint16_t bits;
};

inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline float to_float(float value) {
  return value;
}
/// Exact. The exponent's bias grows by 112; a subnormal number becomes normal when its implicit bit is taken off again.
inline float to_float(Fp16 value) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffu) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  std::uint32_t bits = magnitude + (112u << 23);
  if (magnitude >= (31u << 23)) {
    bits = magnitude | 0x7f800000u;  // infinity or NaN
  } else if (magnitude < (1u << 23)) {
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - 0x1p-14f);
  }
  return std::bit_cast<float>(bits | sign);
}

/// Rounds to nearest even; a NaN stays one.
inline Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Rounds to nearest even, to infinity from 65520 on; a NaN stays one.
inline Fp16 to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  } else if (magnitude >= (143u << 23)) {
    result = 0x7c00u;
  } else if (magnitude < (113u << 23)) {
    // Subnormal: the addition rounds at the last bit of 0.5, which is that of the result.
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
  } else {
    result = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000u))};
}

inline void from_float(float value, float& to) {
  to = value;
}
inline void from_float(float value, Bf16& to) {
  to = to_bf16(value);
}
inline void from_float(float value, Fp16& to) {
  to = to_fp16(value);
}

/// Throws Error{kUnsupported} unless the kernels can store elements of this type.
inline void require_storage(DType type) {
  if (type == DType::kFp32 || type == DType::kBf16 || type == DType::kFp16) return;
  throw Error(ErrorCode::kUnsupported, "no CPU kernel for elements of type " + std::string(to_string(type)))
      .hint("use fp32, bf16 or fp16");
}

/// Throws Error{kUnsupported} unless results of type `result` can be made from operands of type `operand`: fp32 or the
/// same type.
inline void require_result(DType result, DType operand) {
  require_storage(operand);
  if (result == DType::kFp32 || result == operand) return;
  throw Error(ErrorCode::kUnsupported, "no CPU kernel that makes elements of type " + std::string(to_string(result)) +
                                           " from " + std::string(to_string(operand)))
      .hint("use fp32 or the operands' type");
}

/// Calls function(T()) with the C++ type of `type`; the caller has checked it.
template <class Function>
void with_storage(DType type, const Function& function) {
  if (type == DType::kFp32) {
    function(float());
  } else if (type == DType::kBf16) {
    function(Bf16());
  } else {
    function(Fp16());
  }
}

/// Calls function(T(), Result()): operands of type T with results in fp32 or in T; the caller has checked them.
template <class Function>
void with_result(DType type, DType result, const Function& function) {
  with_storage(type, [&]<class T>(T) { result == DType::kFp32 ? function(T(), float()) : function(T(), T()); });
}

inline std::size_t stride_or(std::size_t stride, std::size_t dense) {
  return stride == 0 ? dense : stride;
}

/// Elements of a cache line of floats: ranges are cut at multiples, so that workers share no line of a result.
constexpr std::size_t kLineElements = 16;

/// Smallest share of an elementwise operation that is worth a second worker.
constexpr std::size_t kElementGranule = 2048;

}  // namespace zeroplan::kernels::cpu
