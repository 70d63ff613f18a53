// Any text as the header of a safetensors file; the last two bytes say how long the file claims to be.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "models/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeroplan;
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size - 2);
  const std::uint64_t file_size = 8 + text.size() + data[size - 2] + 256u * data[size - 1];
  try {
    std::map<std::string, std::string> metadata;
    Bytes total;
    for (const auto& tensor : models::detail::parse_safetensors_header(text, file_size, "fuzz", metadata)) {
      total += tensor.size;
      if (tensor.offset + tensor.size > Bytes(file_size)) __builtin_trap();
    }
    if (total > Bytes(file_size)) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
