#include "planner/deepspeed/coercion.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Digits with single underscores between them, as Python's integers are spelled.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    const bool joins = text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (!is_digit && !joins) return std::nullopt;
    if (is_digit) digits += text[i];
  }
  if (digits.empty()) return std::nullopt;
  return digits;
}

std::optional<std::int64_t> integer_of_text(std::string_view text) {
  text = trimmed(text);
  bool negative = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (const std::size_t dot = text.find('.'); dot != std::string_view::npos) {
    const std::string_view fraction = text.substr(dot + 1);
    if (fraction.find_first_not_of('0') != std::string_view::npos || fraction.empty()) return std::nullopt;
    text = text.substr(0, dot);
  }
  const auto digits = plain_digits(text);
  if (!digits) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (status != std::errc() || end != digits->data() + digits->size()) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> number_of_text(std::string_view raw) {
  std::string text = lower_case(trimmed(raw));
  bool negative = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    negative = text.front() == '-';
    text.erase(0, 1);
  }
  double value = 0;
  if (text == "inf" || text == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (text.empty() || (std::isdigit(static_cast<unsigned char>(text.front())) == 0 && text.front() != '.')) {
      return std::nullopt;
    }
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size()) return std::nullopt;
    if (status != std::errc()) value = std::numeric_limits<double>::infinity();
  }
  return negative ? -value : value;
}

}  // namespace

std::optional<bool> coerce_bool(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (number == 0) return false;
    if (number == 1) return true;
    return std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  constexpr std::array<std::string_view, 6> kTrue = {"1", "on", "t", "true", "y", "yes"};
  constexpr std::array<std::string_view, 6> kFalse = {"0", "off", "f", "false", "n", "no"};
  const std::string text = lower_case(value.get<std::string>());
  if (std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end()) return false;
  return std::nullopt;
}

std::optional<std::int64_t> coerce_integer(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (!std::isfinite(number) || std::floor(number) != number || std::abs(number) >= 9.2e18) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_string()) return integer_of_text(value.get_ref<const std::string&>());
  return std::nullopt;
}

std::optional<double> coerce_number(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return number_of_text(value.get_ref<const std::string&>());
  return std::nullopt;
}

}  // namespace zeroplan::planner::deepspeed
