#include "planner/deepspeed/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace zeroplan::planner::deepspeed {

std::optional<std::uint64_t> overflow_steps_until_stop(std::int64_t power, std::int64_t hysteresis,
                                                       std::int64_t least) {
  constexpr std::int64_t kMostPower = 1023;  // a double's range
  if (power < 0 || power > kMostPower || least < 1) return std::nullopt;
  double scale = std::ldexp(1.0, static_cast<int>(power));
  std::uint64_t steps = static_cast<std::uint64_t>(std::max<std::int64_t>(hysteresis - 1, 0));
  while (scale != static_cast<double>(least)) {
    scale = std::max(scale / 2, static_cast<double>(least));
    ++steps;
  }
  return steps + 1;
}

}  // namespace zeroplan::planner::deepspeed
