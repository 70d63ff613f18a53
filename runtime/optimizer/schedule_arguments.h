// Reads the parameters of a DeepSpeed schedule. Main type: ScheduleArguments.
#pragma once

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/core/text.h"
#include "runtime/optimizer/schedule.h"

namespace zeroplan::runtime {

/// Takes arguments out one by one; `finish` refuses what nobody asked for.
class ScheduleArguments {
 public:
  explicit ScheduleArguments(const ScheduleSettings& settings) : settings_(settings) {}

  std::optional<std::string> text(const std::string& key) {
    known_.insert(key);
    const auto found = settings_.arguments.find(key);
    return found == settings_.arguments.end() ? std::nullopt : std::optional(found->second);
  }
  double number(const std::string& key, std::optional<double> fallback) {
    const auto value = text(key);
    if (value) return parse_number(*value, flag(key));
    if (!fallback) throw missing(key);
    return *fallback;
  }
  std::uint64_t positive(const std::string& key, std::optional<std::uint64_t> fallback) {
    const auto value = text(key);
    if (!value && !fallback) throw missing(key);
    const std::uint64_t n = value ? parse_count(*value, flag(key)) : *fallback;
    if (n == 0) throw Error(ErrorCode::kUsage, fmt::format("{}: expected a positive whole number, found 0", flag(key)));
    return n;
  }
  std::uint64_t count(const std::string& key, std::uint64_t fallback) {
    const auto value = text(key);
    return value ? parse_count(*value, flag(key)) : fallback;
  }
  /// A fraction where DeepSpeed takes one.
  double number_within(const std::string& key, double fallback, double least, double most) {
    const double value = number(key, fallback);
    if (value >= least && value <= most) return value;
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: expected a number from {:g} to {:g}, found {}", flag(key), least, most, value));
  }
  /// The first of `values` where nothing is given.
  std::string one_of(const std::string& key, std::initializer_list<std::string_view> values) {
    const std::string value = text(key).value_or(std::string(*values.begin()));
    for (const std::string_view each : values) {
      if (value == each) return value;
    }
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: expected {}, found {}", flag(key), fmt::join(values, " or "), value));
  }
  /// DeepSpeed's way to resume.
  void starts_at_the_beginning() {
    if (number("last_batch_iteration", -1.0) == -1.0) return;
    throw Error(ErrorCode::kUsage, fmt::format("{}: expected -1", flag("last_batch_iteration")))
        .hint("--resume goes on where the checkpoint ended");
  }
  bool boolean(const std::string& key, bool fallback) {
    const auto value = text(key);
    if (!value) return fallback;
    if (*value == "true" || *value == "True" || *value == "1") return true;
    if (*value == "false" || *value == "False" || *value == "0") return false;
    throw Error(ErrorCode::kUsage, fmt::format("{} {}: expected true or false", flag(key), *value));
  }
  void finish() const {
    for (const auto& [key, value] : settings_.arguments) {
      if (known_.count(key) > 0) continue;
      std::string names;
      for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
      throw Error(ErrorCode::kUsage, fmt::format("--schedule-args: {} has no parameter {}", settings_.name, key))
          .hint(names.empty() ? "this schedule takes none" : "known: " + names);
    }
  }

 private:
  static std::string flag(const std::string& key) { return "--schedule-args " + key; }
  Error missing(const std::string& key) const {
    return Error(ErrorCode::kUsage, fmt::format("--schedule {} needs --schedule-args {}=...", settings_.name, key));
  }

  const ScheduleSettings& settings_;
  std::set<std::string> known_;
};

}  // namespace zeroplan::runtime
