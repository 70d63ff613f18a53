#include "models/core/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace zeroplan {
namespace {

struct SizeUnit {
  std::string_view name;
  double bytes;
};
constexpr std::array<SizeUnit, 10> kSizeUnits = {{{"B", 1},
                                                  {"KiB", 1024.0},
                                                  {"MiB", 1048576.0},
                                                  {"GiB", 1073741824.0},
                                                  {"TiB", 1099511627776.0},
                                                  {"KB", 1e3},
                                                  {"kB", 1e3},
                                                  {"MB", 1e6},
                                                  {"GB", 1e9},
                                                  {"TB", 1e12}}};
constexpr double kMostCount = 9.2e18;

Error bad(std::string_view what, std::string_view text, std::string_view expected) {
  return Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", what, text, expected))
      .at({.key = std::string(what), .value = std::string(text)});
}

struct Number {
  double value;
  std::string_view rest;
};

std::optional<Number> leading_number(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || !std::isfinite(value)) return std::nullopt;
  return Number{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

}  // namespace

Bytes parse_size(std::string_view text, std::string_view what) {
  constexpr std::string_view kExpected = "a size such as 24GiB, 1.5TB or bytes";
  std::uint64_t whole = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (status == std::errc() && end == text.data() + text.size() && whole < std::uint64_t{1} << 63) return Bytes(whole);
  const auto number = leading_number(text);
  if (!number || number->value < 0) throw bad(what, text, kExpected);
  double unit = number->rest.empty() ? 1 : 0;
  std::string_view rest = number->rest;
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  for (const SizeUnit& candidate : kSizeUnits) {
    if (candidate.name == rest) unit = candidate.bytes;
  }
  const double bytes = number->value * unit;
  if (unit == 0 || bytes > kMostCount) throw bad(what, text, kExpected);
  return Bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

std::uint64_t parse_count(std::string_view text, std::string_view what) {
  std::uint64_t whole = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (status == std::errc() && end == text.data() + text.size() && whole < std::uint64_t{1} << 63) return whole;
  const auto number = leading_number(text);
  if (!number || !number->rest.empty() || number->value < 0 || number->value > kMostCount ||
      std::floor(number->value) != number->value) {
    throw bad(what, text, "a whole number such as 8 or 5e8");
  }
  return static_cast<std::uint64_t>(number->value);
}

double parse_number(std::string_view text, std::string_view what) {
  const auto number = leading_number(text);
  if (!number || !number->rest.empty()) throw bad(what, text, "a finite number");
  return number->value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    if (!part.empty()) parts.emplace_back(part);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::string format_size(Bytes size) {
  const auto n = static_cast<double>(size.count());
  if (n >= 1099511627776.0) return fmt::format("{:.2f} TiB", n / 1099511627776.0);
  if (n >= 1073741824.0) return fmt::format("{:.2f} GiB", n / 1073741824.0);
  if (n >= 1048576.0) return fmt::format("{:.2f} MiB", n / 1048576.0);
  if (n >= 1024.0) return fmt::format("{:.1f} KiB", n / 1024.0);
  return fmt::format("{} B", size.count());
}

std::string format_count(std::uint64_t n) {
  std::string digits = fmt::format("{}", n);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string format_duration(Seconds time) {
  const double s = time.value();
  if (s >= 1) return fmt::format("{:.2f} s", s);
  if (s >= 1e-3) return fmt::format("{:.2f} ms", s * 1e3);
  return fmt::format("{:.1f} us", s * 1e6);
}

}  // namespace zeroplan
