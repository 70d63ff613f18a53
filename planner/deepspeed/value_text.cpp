#include "planner/deepspeed/value_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::size_t kLongestShown = 60;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t skip_digits(std::string_view word, std::size_t at) {
  while (at < word.size() && is_digit(word[at])) ++at;
  return at;
}

/// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view word) {
  std::size_t at = 0;
  if (at < word.size() && word[at] == '-') ++at;
  const std::size_t whole = at;
  at = skip_digits(word, at);
  if (at == whole || (word[whole] == '0' && at > whole + 1)) return false;
  if (at < word.size() && word[at] == '.') {
    const std::size_t fraction = at + 1;
    at = skip_digits(word, fraction);
    if (at == fraction) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    const std::size_t exponent = at;
    at = skip_digits(word, exponent);
    if (at == exponent) return false;
  }
  return at == word.size() && !word.empty();
}

Json parse_number_word(std::string_view word) {
  const char* begin = word.data();
  const char* end = begin + word.size();
  if (word.find_first_of(".eE") == std::string_view::npos) {
    std::int64_t whole = 0;
    if (std::from_chars(begin, end, whole).ec == std::errc()) return whole;
    std::uint64_t large = 0;
    if (std::from_chars(begin, end, large).ec == std::errc()) return large;
  }
  double value = 0;
  if (std::from_chars(begin, end, value).ec != std::errc()) {
    const bool tiny = word.find("e-") != std::string_view::npos || word.find("E-") != std::string_view::npos;
    value = tiny ? 0 : std::numeric_limits<double>::infinity();
    if (word.front() == '-') value = -value;
  }
  return value;
}

}  // namespace

std::optional<Json> parse_bare_value(std::string_view word) {
  if (word == "true") return Json(true);
  if (word == "false") return Json(false);
  if (word == "null") return Json(nullptr);
  if (word == "NaN") return Json(std::numeric_limits<double>::quiet_NaN());
  if (word == "Infinity") return Json(std::numeric_limits<double>::infinity());
  if (word == "-Infinity") return Json(-std::numeric_limits<double>::infinity());
  if (is_json_number(word)) return parse_number_word(word);
  return std::nullopt;
}

void append_utf8(std::string& text, std::uint32_t code) {
  if ((code >= 0xD800 && code < 0xE000) || code > 0x10FFFF) code = 0xFFFD;
  const auto byte = [&text](std::uint32_t bits) { text += static_cast<char>(bits); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | (code >> 6));
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string clean_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = lead < 0x80         ? 1
                               : lead >> 5 == 0x6  ? 2
                               : lead >> 4 == 0xE  ? 3
                               : lead >> 3 == 0x1E ? 4
                                                   : 0;
    std::uint32_t code = length == 1 ? lead : length == 0 ? 0 : lead & (0xFFU >> (length + 1));
    bool good = length > 0 && at + length <= text.size();
    for (std::size_t i = 1; good && i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      good = (next & 0xC0) == 0x80;
      code = (code << 6) | (next & 0x3F);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && code >= kLeast[length];
    append_utf8(clean, good ? code : 0xFFFD);
    at += good ? length : 1;
  }
  return clean;
}

int hexadecimal_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string shown_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte == 0) return "the end";
  if (byte < 0x20 || byte >= 0x7F) return fmt::format("byte 0x{:02x}", byte);
  return std::string(1, c);
}

std::string quoted_text(std::string_view text) {
  return shown_value(Json(clean_utf8(text)));
}

std::string shown_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (std::floor(value) == value && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  std::string text = fmt::format("{:.12g}", value);
  return text;
}

std::string shown_value(const Json& value) {
  if (value.is_number_float()) return shown_number(value.get<double>());
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = clean_utf8(text.substr(0, kLongestShown)) + "...";
  return text;
}

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a truth value";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    default:
      return "null";
  }
}

}  // namespace zeroplan::planner::deepspeed
