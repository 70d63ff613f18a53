// Any text as config.json: a Model or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/load_model.h"
#include "models/parameter_summary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeroplan;
  try {
    const Json config = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "config.json");
    static_cast<void>(models::summarise(models::build_model(config, "config.json")));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
