// libFuzzer target: the lenient reader, and the whole check behind it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "planner/deepspeed/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeroplan::planner::deepspeed;  // NOLINT(google-build-using-namespace): the target is about this
                                                 // namespace
  if (size == 0) return 0;
  CheckInput input;
  input.reader = static_cast<ConfigReader>(data[0] % 3);
  input.config_file = "fuzz.json";
  input.config_text = std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  input.training.gpus = 1 + data[0] / 3 % 8;
  const zeroplan::Json document = check(input).to_json();
  if (document["errors"] > 0 && document["findings"].empty()) __builtin_trap();
  static_cast<void>(document.dump(-1, ' ', false, zeroplan::Json::error_handler_t::strict));
  return 0;
}
