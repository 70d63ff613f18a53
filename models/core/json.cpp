#include "models/core/json.h"

#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "models/core/file_io.h"

namespace zeroplan {
namespace {

constexpr std::size_t kLongestShownValue = 60;

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestShownValue) text = text.substr(0, kLongestShownValue) + "...";
  return text;
}

ErrorPlace place_of_offset(std::string_view text, std::size_t offset, const std::string& file) {
  ErrorPlace place;
  place.file = file;
  std::uint64_t line = 1;
  std::uint64_t column = 1;
  for (std::size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  place.line = line;
  place.column = column;
  return place;
}

/// Where the text is nested too deeply or an object has too many keys.
struct Excess {
  std::size_t offset = 0;
  std::string what;
};

/// Counted before parsing, so that a hostile document costs one scan.
std::optional<Excess> find_excess(std::string_view text, const JsonLimits& limits) {
  std::vector<std::uint64_t> keys;  // of each bracket that is open
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      keys.push_back(0);
      if (keys.size() > static_cast<std::size_t>(limits.most_depth)) {
        return Excess{i, fmt::format("is nested deeper than {} levels", limits.most_depth)};
      }
    } else if (c == ']' || c == '}') {
      if (!keys.empty()) keys.pop_back();
    } else if (c == ':' && !keys.empty() && ++keys.back() > limits.most_keys) {
      return Excess{i, fmt::format("has an object of more than {} keys", limits.most_keys)};
    }
  }
  return std::nullopt;
}

template <class Document>
Document parse_checked(std::string_view text, const std::string& file, const JsonLimits& limits) {
  if (const auto excess = find_excess(text, limits)) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} {}", file, excess->what))
        .at(place_of_offset(text, excess->offset, file));
  }
  try {
    return Document::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const std::size_t offset = e.byte > 0 ? e.byte - 1 : 0;
    const ErrorPlace place = place_of_offset(text, offset, file);
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} is not valid JSON at line {}, column {}", file, *place.line, *place.column))
        .at(place)
        .hint("comments and trailing commas are not JSON; remove them");
  } catch (const nlohmann::json::exception& e) {  // a number out of range, a text that is not UTF-8
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} is not valid JSON: {}", file, e.what())).at({.file = file});
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  return parse_checked<Json>(text, file, limits);
}

nlohmann::json parse_large_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  JsonLimits without_keys = limits;
  without_keys.most_keys = std::numeric_limits<std::uint64_t>::max();
  return parse_checked<nlohmann::json>(text, file, without_keys);
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_file(path, Bytes(limits.most_bytes)), path.string(), limits);
}

bool JsonView::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

JsonView JsonView::at(std::string_view key) const {
  const Json& object = as_object();
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  const auto it = object.find(key);
  if (it == object.end()) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} lacks the key {}", file_, path))
        .at({.file = file_, .key = path});
  }
  return JsonView(*it, file_, path);
}

JsonView JsonView::at(std::size_t index) const {
  ZP_CHECK(index < array_size());
  return JsonView((*value_)[index], file_, fmt::format("{}[{}]", path_, index));
}

std::size_t JsonView::array_size() const {
  if (!value_->is_array()) throw unexpected("a list");
  return value_->size();
}

std::uint64_t JsonView::as_count() const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  if (value_->is_number_unsigned()) {
    const auto n = value_->get<std::uint64_t>();
    if (n < kMost) return n;
  } else if (value_->is_number_integer()) {
    const auto n = value_->get<std::int64_t>();
    if (n >= 0) return static_cast<std::uint64_t>(n);
  } else if (value_->is_number_float()) {
    const auto n = value_->get<double>();
    if (n >= 0 && n < 9.0e18 && std::floor(n) == n) return static_cast<std::uint64_t>(n);
  }
  throw unexpected("a whole number, not negative");
}

double JsonView::as_number() const {
  if (!value_->is_number()) throw unexpected("a number");
  const auto n = value_->get<double>();
  if (!std::isfinite(n)) throw unexpected("a finite number");
  return n;
}

bool JsonView::as_bool() const {
  if (!value_->is_boolean()) throw unexpected("true or false");
  return value_->get<bool>();
}

std::string JsonView::as_string() const {
  if (!value_->is_string()) throw unexpected("a text");
  return value_->get<std::string>();
}

const Json& JsonView::as_object() const {
  if (!value_->is_object()) throw unexpected("an object");
  return *value_;
}

std::uint64_t JsonView::count_or(std::string_view key, std::uint64_t fallback) const {
  return has(key) ? at(key).as_count() : fallback;
}
double JsonView::number_or(std::string_view key, double fallback) const {
  return has(key) ? at(key).as_number() : fallback;
}
bool JsonView::bool_or(std::string_view key, bool fallback) const {
  return has(key) ? at(key).as_bool() : fallback;
}
std::string JsonView::string_or(std::string_view key, std::string fallback) const {
  return has(key) ? at(key).as_string() : fallback;
}

Error JsonView::unexpected(std::string_view expected) const {
  const std::string what = path_.empty() ? "the document" : path_;
  return Error(ErrorCode::kInvalidInput,
               fmt::format("{}: {} is {}, expected {}", file_, what, shown(*value_), expected))
      .at({.file = file_, .key = path_, .value = shown(*value_)});
}

}  // namespace zeroplan
