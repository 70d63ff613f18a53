#include "planner/deepspeed/accelerate_config.h"

#include <fmt/format.h>

#include "planner/deepspeed/check.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::size_t kMostLines = 5000;

std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quoted) {
      quoted = line[i] != quote;
    } else if (line[i] == '"' || line[i] == '\'') {
      quoted = true;
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

Json yaml_value(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    return clean_utf8(text.substr(1, text.size() - 2));
  }
  if (text == "true" || text == "True" || text == "yes") return true;
  if (text == "false" || text == "False" || text == "no") return false;
  if (text.empty() || text == "null" || text == "~") return nullptr;
  if (text == "{}") return Json::object();
  if (text == "[]") return Json::array();
  if (auto plain = parse_bare_value(text)) return *plain;
  return clean_utf8(text);
}

struct OpenMapping {
  std::size_t indent = 0;
  Json* node = nullptr;
};

}  // namespace

AccelerateConfig read_accelerate_config(std::string_view text) {
  AccelerateConfig config;
  const std::string_view start = trimmed(text.substr(0, text.find('\n')));
  if (start.starts_with("{")) {
    try {
      config.root = read_config_text(text, "accelerate config").root;
    } catch (const Error& e) {
      config.problems.push_back(e.message());
    }
    return config;
  }
  std::vector<OpenMapping> open = {{0, &config.root}};
  std::size_t number = 0;
  while (!text.empty() && number < kMostLines) {
    const std::size_t end = text.find('\n');
    const std::string_view line = without_comment(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    const std::string_view content = trimmed(line);
    if (content.empty() || content == "---" || content.starts_with("- ")) continue;
    const std::size_t indent = line.find_first_not_of(" \t");
    const std::size_t colon = content.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      config.problems.push_back(
          fmt::format("line {}: found {}, expected a key with a value", number, quoted_text(content)));
      continue;
    }
    while (open.size() > 1 && indent < open.back().indent) open.pop_back();
    const std::string key = clean_utf8(trimmed(content.substr(0, colon)));
    const std::string_view rest = trimmed(content.substr(colon + 1));
    if (open.back().node->contains(key))
      config.problems.push_back(fmt::format("line {}: {} stands there twice", number, key));
    Json& member = (*open.back().node)[key];
    member = yaml_value(rest);
    if (!rest.empty()) continue;
    // A key without a value opens a mapping if the next line is indented further.
    const std::size_t next = text.find_first_not_of(" \t");
    if (next != std::string_view::npos && next > indent && text[next] != '\n' && text[next] != '-') {
      member = Json::object();
      open.push_back({next, &member});
      if (open.size() > 16) {
        config.problems.push_back(fmt::format("line {}: nested too deeply", number));
        return config;
      }
    }
  }
  return config;
}

const Json* AccelerateConfig::find(std::string_view key) const {
  const auto it = root.find(key);
  return it == root.end() || it->is_null() ? nullptr : &*it;
}

const Json* AccelerateConfig::deepspeed_section() const {
  const Json* section = find("deepspeed_config");
  return section != nullptr && section->is_object() ? section : nullptr;
}

std::string AccelerateConfig::text_or(std::string_view key, std::string fallback) const {
  const Json* value = find(key);
  if (value == nullptr) {
    const Json* section = deepspeed_section();
    if (section == nullptr || !section->contains(key)) return fallback;
    value = &(*section)[std::string(key)];
  }
  if (value->is_string()) return value->get<std::string>();
  if (value->is_boolean()) return value->get<bool>() ? "yes" : "no";
  return value->is_null() ? fallback : shown_value(*value);
}

AccelerateConfig accelerate_config_of(const CheckInput& input) {
  return input.accelerate_config ? read_accelerate_config(*input.accelerate_config) : AccelerateConfig{};
}

}  // namespace zeroplan::planner::deepspeed
