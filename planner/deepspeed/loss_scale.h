// DeepSpeed's dynamic loss scale when every step overflows.
#pragma once

#include <cstdint>
#include <optional>

namespace zeroplan::planner::deepspeed {

/// The step at which a run stops with "loss scale already at minimum" if every step overflows: the hysteresis is spent,
/// the scale 2^power is halved down to `least`, and the next overflow stops. Nothing for values that no run can have.
std::optional<std::uint64_t> overflow_steps_until_stop(std::int64_t power, std::int64_t hysteresis, std::int64_t least);

}  // namespace zeroplan::planner::deepspeed
