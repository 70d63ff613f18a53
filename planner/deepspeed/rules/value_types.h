// Whether a value is what its key takes.
#pragma once

#include <string>

#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {

/// True for the three batch sizes, whose rule is `resolve_batch`.
bool is_batch_key(std::string_view path);

/// Reports a value of the wrong type or beyond the limits of its key.
void check_value(Workspace& work, Reading reading, const KeySpec& key, const std::string& path, const Json& value);

}  // namespace zeroplan::planner::deepspeed
