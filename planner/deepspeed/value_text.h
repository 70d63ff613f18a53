// Texts of JSON values: words without quotes, UTF-8, and how values are shown in messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

/// true, false, null or a number as JSON spells it (also NaN and Infinity, which Python's reader takes); otherwise
/// nothing.
std::optional<Json> parse_bare_value(std::string_view word);

/// Without white space at either end.
std::string_view trimmed(std::string_view text);
/// ASCII letters in lower case.
std::string lower_case(std::string_view text);
/// Replaces what is not UTF-8.
std::string clean_utf8(std::string_view text);
/// Appends a code point; one that cannot be encoded becomes U+FFFD.
void append_utf8(std::string& text, std::uint32_t code);
/// -1 if it is none.
int hexadecimal_digit(char c);

/// One byte for a message.
std::string shown_byte(char c);
/// The text in double quotes, shortened.
std::string quoted_text(std::string_view text);
/// A value as JSON, shortened; whole floats as whole numbers.
std::string shown_value(const Json& value);
/// "a text", "a whole number", ...: what kind of value it is.
std::string kind_of(const Json& value);
/// A number without superfluous digits: 0.0001, 5e-05, 16.
std::string shown_number(double value);

}  // namespace zeroplan::planner::deepspeed
