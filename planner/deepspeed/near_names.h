// The nearest known name of a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeroplan::planner::deepspeed {

/// The candidate that was most likely meant (few edits, other case, a missing prefix or ending); empty if none is near.
std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace zeroplan::planner::deepspeed
