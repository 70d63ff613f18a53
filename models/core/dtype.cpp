#include "models/core/dtype.h"

#include <array>
#include <utility>

namespace zeroplan {

std::string_view to_string(DType type) {
  constexpr std::array<std::string_view, 10> kNames = {"fp32",  "bf16",  "fp16",  "fp64", "int8",
                                                       "uint8", "int32", "int64", "bool", "fp8"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::optional<DType> parse_dtype(std::string_view text) {
  constexpr std::string_view kTorchPrefix = "torch.";
  if (text.substr(0, kTorchPrefix.size()) == kTorchPrefix) text.remove_prefix(kTorchPrefix.size());
  constexpr std::array<std::pair<std::string_view, DType>, 6> kSpellings = {{{"float32", DType::kFp32},
                                                                             {"float", DType::kFp32},
                                                                             {"bfloat16", DType::kBf16},
                                                                             {"float16", DType::kFp16},
                                                                             {"half", DType::kFp16},
                                                                             {"float64", DType::kFp64}}};
  for (const auto& [spelling, type] : kSpellings) {
    if (spelling == text) return type;
  }
  for (int i = 0; i < 10; ++i) {
    if (to_string(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace zeroplan
