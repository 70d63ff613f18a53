// Element types of tensors. Depends on models/core only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/core/units.h"

namespace zeroplan {

/// The type of an element.
enum class DType { kFp32, kBf16, kFp16, kFp64, kInt8, kUint8, kInt32, kInt64, kBool, kFp8 };

/// Bytes of one element.
constexpr std::uint64_t size_of(DType type) {
  switch (type) {
    case DType::kFp64:
    case DType::kInt64:
      return 8;
    case DType::kFp32:
    case DType::kInt32:
      return 4;
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kInt8:
    case DType::kUint8:
    case DType::kBool:
    case DType::kFp8:
      return 1;
  }
  return 0;
}

/// Elements x type = bytes; throws Error{kOverflow}.
inline Bytes operator*(Elements n, DType type) {
  return Bytes(detail::checked_mul(n.count(), size_of(type)));
}

/// "fp32", "bf16", ...
std::string_view to_string(DType type);
/// The reverse of `to_string`; also "float32", "bfloat16", "float16", "half", "float" as configs spell them.
std::optional<DType> parse_dtype(std::string_view text);

}  // namespace zeroplan
