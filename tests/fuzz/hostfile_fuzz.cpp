// libFuzzer target: hostfile, filters and the environment file. The first line is the filter, the rest the hostfile.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "planner/deepspeed/hostfile.h"
#include "planner/deepspeed/launch_line.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeroplan::planner::deepspeed;  // NOLINT(google-build-using-namespace): the target is about this
                                                 // namespace
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  const std::string_view filter = text.substr(0, end);
  const std::string_view file = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  try {
    static_cast<void>(parse_environment_file(text, "fuzz"));
  } catch (const zeroplan::Error&) {
  }
  try {
    const auto pool = parse_hostfile(file, "fuzz");
    std::size_t slots = 0;
    for (const Host& host : pool) slots += host.slots;
    for (const auto& hosts : {include_hosts(pool, filter), exclude_hosts(pool, filter)}) {
      std::size_t used = 0;
      for (const HostSlots& host : hosts) used += host.slots.size();
      if (used > slots) __builtin_trap();
    }
  } catch (const zeroplan::Error&) {
  }
  return 0;
}
