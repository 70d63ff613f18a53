// How DeepSpeed's strict sections convert values. Purpose: tell what a bool, whole-number or number field makes of a
// JSON value, texts and floats included (pydantic's lenient mode). Depends on models/core only.
#pragma once

#include <cstdint>
#include <optional>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

/// true, false, 0, 1, and the texts on/off, t/f, true/false, y/n, yes/no, 1/0 in any case.
std::optional<bool> coerce_bool(const Json& value);

/// A whole number: an integer, a whole float, a truth value, or a text of digits. Beyond 64 bits: nothing.
std::optional<std::int64_t> coerce_integer(const Json& value);

/// A number: also a text that spells one, infinity and NaN included.
std::optional<double> coerce_number(const Json& value);

}  // namespace zeroplan::planner::deepspeed
