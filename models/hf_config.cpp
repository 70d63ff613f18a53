#include "models/hf_config.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroplan::models {
namespace {

constexpr std::string_view kSizeHint = "compare the value with the model's published config.json";

const Json& empty_object() {
  static const Json empty = Json::object();
  return empty;
}

std::uint64_t bounded(const JsonView& value, std::uint64_t least, std::uint64_t most) {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  if (value.json().is_string()) {
    throw value.unexpected(expected).hint("write the number without quotes");
  }
  if (!value.json().is_number()) throw value.unexpected(expected).hint(std::string(kSizeHint));
  std::uint64_t n = 0;
  try {
    n = value.as_count();
  } catch (const Error&) {
    throw value.unexpected(expected).hint(std::string(kSizeHint));
  }
  if (n < least || n > most) throw value.unexpected(expected).hint(std::string(kSizeHint));
  return n;
}

}  // namespace

HfConfig::HfConfig(JsonView view) : HfConfig(std::move(view), std::make_shared<std::vector<std::string>>()) {
  view_.as_object();
}

std::optional<JsonView> HfConfig::find(Keys keys) const {
  std::optional<JsonView> found;
  for (const std::string_view key : keys) {
    if (!view_.has(key)) continue;
    const JsonView value = view_.at(key);
    if (!found) {
      found = value;
    } else if (found->json() != value.json()) {
      throw value.unexpected(fmt::format("the same as {}, which is {}", found->path(), found->json().dump()))
          .hint("two spellings of one field disagree; remove one of them");
    }
  }
  return found;
}

std::string HfConfig::full_key(std::string_view key) const {
  return view_.path().empty() ? std::string(key) : fmt::format("{}.{}", view_.path(), key);
}

void HfConfig::assume(Keys keys, std::uint64_t value) const {
  std::string text = fmt::format("{} = {}", full_key(*keys.begin()), value);
  if (std::find(assumed_->begin(), assumed_->end(), text) == assumed_->end()) assumed_->push_back(std::move(text));
}

bool HfConfig::is_null(std::string_view key) const {
  const auto it = view_.json().find(key);
  return it != view_.json().end() && it->is_null();
}

std::uint64_t HfConfig::width(Keys keys, std::uint64_t fallback, std::uint64_t most) const {
  if (const auto value = find(keys)) return bounded(*value, 1, most);
  assume(keys, fallback);
  return fallback;
}

std::uint64_t HfConfig::count(Keys keys, std::uint64_t fallback, std::uint64_t most) const {
  if (const auto value = find(keys)) return bounded(*value, 0, most);
  assume(keys, fallback);
  return fallback;
}

std::optional<std::uint64_t> HfConfig::optional_width(Keys keys, std::uint64_t most) const {
  if (const auto value = find(keys)) return bounded(*value, 1, most);
  return std::nullopt;
}

double HfConfig::number(Keys keys, double fallback) const {
  const auto value = find(keys);
  return value ? value->as_number() : fallback;
}

bool HfConfig::flag(Keys keys, bool fallback) const {
  const auto value = find(keys);
  return value ? value->as_bool() : fallback;
}

std::string HfConfig::text(Keys keys, std::string_view fallback) const {
  const auto value = find(keys);
  return value ? value->as_string() : std::string(fallback);
}

std::vector<std::uint64_t> HfConfig::numbers(std::string_view key) const {
  std::vector<std::uint64_t> values;
  if (!has(key)) return values;
  const JsonView list = view_.at(key);
  if (list.array_size() > kMostLayers) throw unexpected(key, fmt::format("at most {} entries", kMostLayers), kSizeHint);
  for (std::size_t i = 0; i < list.array_size(); ++i) values.push_back(bounded(list.at(i), 0, kMostRows));
  return values;
}

HfConfig HfConfig::part(std::string_view key) const {
  if (!has(key)) return HfConfig(JsonView(empty_object(), view_.file(), full_key(key)), assumed_);
  HfConfig inner(view_.at(key), assumed_);
  inner.view_.as_object();
  return inner;
}

HfConfig HfConfig::part_or_self(std::string_view key) const {
  return has(key) ? part(key) : *this;
}

std::string HfConfig::architecture() const {
  if (!has("architectures")) return "";
  const JsonView list = view_.at("architectures");
  return list.array_size() == 0 ? "" : list.at(std::size_t{0}).as_string();
}

void HfConfig::require_divides(std::string_view divisor_key, std::uint64_t divisor, std::string_view value_key,
                               std::uint64_t value) const {
  if (divisor != 0 && value % divisor == 0) return;
  const std::string key = full_key(divisor_key);
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("{}: {} is {}, expected a divisor of {} {}", view_.file(), key, divisor, value_key, value))
      .at({.file = view_.file(), .key = key, .value = std::to_string(divisor)})
      .hint(fmt::format("choose {} so that it divides {}", divisor_key, value_key));
}

Error HfConfig::unexpected(std::string_view key, std::string_view expected, std::string_view hint) const {
  Error error = has(key) ? view_.at(key).unexpected(expected)
                         : Error(ErrorCode::kInvalidInput,
                                 fmt::format("{}: {} is absent, expected {}", view_.file(), full_key(key), expected))
                               .at({.file = view_.file(), .key = full_key(key)});
  error.hint(std::string(hint));
  return error;
}

}  // namespace zeroplan::models
