// Storage types of the CPU kernels. Purpose: bf16 as a type of its own, and the checks every entry point makes. Depends
// on models/core.
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

inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline float to_float(float value) {
  return value;
}

/// Rounds to nearest even; a NaN stays one.
inline Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Throws Error{kUnsupported} unless the kernels can store elements of this type.
inline void require_storage(DType type) {
  if (type == DType::kFp32 || type == DType::kBf16) return;
  throw Error(ErrorCode::kUnsupported, "no CPU kernel for elements of type " + std::string(to_string(type)))
      .hint("use fp32 or bf16");
}

/// Throws Error{kUnsupported} unless the type is fp32.
inline void require_fp32(DType type) {
  if (type == DType::kFp32) return;
  throw Error(ErrorCode::kUnsupported, "no CPU kernel for elements of type " + std::string(to_string(type)))
      .hint("use fp32");
}

/// Calls function(T()) with the C++ type of `type`; the caller has checked it.
template <class Function>
void with_storage(DType type, const Function& function) {
  if (type == DType::kBf16) {
    function(Bf16());
  } else {
    function(float());
  }
}

inline std::size_t stride_or(std::size_t stride, std::size_t dense) {
  return stride == 0 ? dense : stride;
}

/// Elements of a cache line of floats: ranges are cut at multiples, so that workers share no line of a result.
constexpr std::size_t kLineElements = 16;

/// Smallest share of an elementwise operation that is worth a second worker.
constexpr std::size_t kElementGranule = 2048;

}  // namespace zeroplan::kernels::cpu
