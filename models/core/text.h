// Sizes and counts as people write them (interface.md section 1). Depends on models/core only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/units.h"

namespace zeroplan {

/// "24GiB", "512MiB" (powers of two), "1.5TB" (powers of ten) or bytes. `what` names the value in the error.
/// \throws Error{kUsage} for anything else, a negative, infinite or too large size included.
Bytes parse_size(std::string_view text, std::string_view what);
/// A whole number, also written 5e8. \throws Error{kUsage}.
std::uint64_t parse_count(std::string_view text, std::string_view what);
/// A finite number. \throws Error{kUsage}.
double parse_number(std::string_view text, std::string_view what);

/// "a,b,c" in parts; empty parts are dropped.
std::vector<std::string> split(std::string_view text, char separator);

/// "17.25 GiB", "3.5 MiB", "512 B".
std::string format_size(Bytes size);
/// "124,439,808"
std::string format_count(std::uint64_t n);
/// "1.25 s", "3.1 ms", "12 us"
std::string format_duration(Seconds time);

}  // namespace zeroplan
