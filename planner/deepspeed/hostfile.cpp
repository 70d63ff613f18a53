#include "planner/deepspeed/hostfile.h"

#include <charconv>
#include <unordered_set>

#include <fmt/format.h>

#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

Error bad_line(const std::string& file, std::uint64_t number, std::string_view line, const std::string& what) {
  const std::string shown = clean_utf8(line.substr(0, 80));
  return Error(ErrorCode::kInvalidInput, fmt::format("{}, line {}: \"{}\": {}", file, number, shown, what))
      .at({.file = file, .line = number, .value = shown})
      .hint("a line is `[user@]host slots=N`");
}

Host parse_line(std::string_view line, const std::string& file, std::uint64_t number) {
  const std::size_t name_end = line.find_first_of(" \t");
  const std::string_view name = line.substr(0, name_end);
  if (name_end == std::string_view::npos) throw bad_line(file, number, line, "slots=N is missing");
  const std::string_view rest = trimmed(line.substr(name_end));
  constexpr std::string_view kSlots = "slots=";
  if (!rest.starts_with(kSlots)) throw bad_line(file, number, line, "expected slots=N after the host");
  const std::size_t count_end = rest.find_first_of(" \t");
  const std::string_view digits =
      rest.substr(kSlots.size(), count_end == std::string_view::npos ? rest.npos : count_end - kSlots.size());
  std::uint64_t slots = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  if (digits.empty() || status != std::errc() || end != digits.data() + digits.size()) {
    throw bad_line(file, number, line, "slots is no whole number");
  }
  if (slots == 0) throw bad_line(file, number, line, "slots is 0, expected at least 1");
  if (slots > kMostSlotsPerHost) throw bad_line(file, number, line, fmt::format("slots exceeds {}", kMostSlotsPerHost));
  return {clean_utf8(name), slots};
}

}  // namespace

std::vector<Host> parse_hostfile(std::string_view text, const std::string& file) {
  std::vector<Host> hosts;
  std::unordered_set<std::string> names;
  std::uint64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    Host host = parse_line(line, file, number);
    if (!names.insert(host.name).second) throw bad_line(file, number, line, fmt::format("{} stands twice", host.name));
    if (hosts.size() >= kMostHosts) throw bad_line(file, number, line, "too many hosts");
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} names no host, expected lines `host slots=N`", file))
        .at({.file = file});
  }
  return hosts;
}

}  // namespace zeroplan::planner::deepspeed
