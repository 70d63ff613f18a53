#include "planner/deepspeed/rules/value_types.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/near_names.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// One check of one value.
class ValueCheck {
 public:
  ValueCheck(Workspace& work, Reading reading, const KeySpec& key, const std::string& path, const Json& value)
      : work_(work), strict_(reading == Reading::kStrict), key_(key), path_(path), value_(value) {}

  void run() {
    if (value_.is_null()) {
      if (!key_.nullable && strict_) wrong("null is no value here");
      return;
    }
    switch (key_.type) {
      case ValueType::kBool:
        return check_bool();
      case ValueType::kInteger:
        return check_integer();
      case ValueType::kNumber:
        return check_number();
      case ValueType::kText:
        if (!value_.is_string()) wrong("");
        return;
      case ValueType::kChoice:
        return check_choice();
      case ValueType::kObject:
        if (!value_.is_object() && !(path_ == "zero_optimization" && value_.is_boolean())) wrong("");
        if (path_ == "zero_optimization" && value_.is_boolean()) {
          work_.findings.warning(path_,
                                 "zero_optimization as true or false is the oldest form: it means stage 1 or none",
                                 "write {\"stage\": 1}");
        }
        return;
      case ValueType::kList:
        if (!value_.is_array()) wrong("");
        return;
      case ValueType::kAny:
        return;
    }
  }

 private:
  void wrong(const std::string& more, const Json& suggest = nullptr) {
    const std::string found = fmt::format("{} is {} ({})", path_, shown_value(value_), kind_of(value_));
    work_.findings.error(
        path_, fmt::format("{}, expected {}{}{}", found, expected(), more.empty() ? "" : ": ", more),
        suggest.is_null() ? fmt::format("write {}", expected()) : fmt::format("write {}", shown_value(suggest)),
        suggest);
  }

  std::string expected() const {
    if (key_.type == ValueType::kChoice) {
      std::string names;
      for (const std::string& name : split(key_.choices, '|')) names += (names.empty() ? "" : ", ") + name;
      return "one of " + names;
    }
    std::string text(describe(key_.type));
    if (std::isfinite(key_.least) && std::isfinite(key_.most)) {
      text += fmt::format(" from {} to {}", shown_number(key_.least), shown_number(key_.most));
    } else if (std::isfinite(key_.least)) {
      text += fmt::format(" of at least {}", shown_number(key_.least));
    }
    return text;
  }

  void check_bool() {
    if (value_.is_boolean()) return;
    const auto meant = coerce_bool(value_);
    if (!strict_) {
      if (value_.is_number() && meant) return;
      const std::string reads = value_.is_string() ? "a text counts as true whatever it says" : "";
      return wrong(reads, meant ? Json(*meant) : Json(nullptr));
    }
    if (!meant) return wrong("");
    if (!value_.is_string()) return;
    const bool trainer_reads_it = path_ == "fp16.enabled" || path_ == "bf16.enabled";
    if (work_.someone_fills() && trainer_reads_it) return;  // the trainer's comparison speaks of it
    work_.findings.warning(
        path_,
        fmt::format("{} is the string {}; DeepSpeed reads it as {}, other readers take any text as true", path_,
                    shown_value(value_), *meant ? "true" : "false"),
        fmt::format("write {} without quotes", *meant ? "true" : "false"), *meant);
  }

  void check_limits(double number) {
    if (number >= key_.least && number <= key_.most) return;
    Json suggest = nullptr;
    if (number < key_.least && key_.type == ValueType::kInteger) suggest = static_cast<std::int64_t>(key_.least);
    if (path_ == "zero_optimization.reduce_bucket_size") suggest = 500'000'000;
    wrong("", suggest);
  }

  void check_integer() {
    const bool loss_scale_part = path_ == "fp16.loss_scale_window" || path_ == "fp16.min_loss_scale";
    if (loss_scale_part && value_.is_boolean()) return wrong("a truth value is refused here");
    const auto number = coerce_integer(value_);
    if (!number) {
      Json suggest = nullptr;
      const auto real = coerce_number(value_);
      if (real && std::isfinite(*real) && *real >= 1 && *real < 9e18)
        suggest = static_cast<std::int64_t>(std::floor(*real));
      const bool fraction = value_.is_number_float();
      return wrong(fraction ? "a fractional part is refused (whole floats such as 5e8 are fine)" : "", suggest);
    }
    if (!strict_ && (value_.is_string() || value_.is_boolean())) return wrong("nothing converts it", Json(*number));
    if (value_.is_string()) {
      if (work_.someone_fills() && path_ == "zero_optimization.stage") {
        return wrong(
            "DeepSpeed converts the text, the trainer and Accelerate compare it with a number and see no stage",
            *number);
      }
      work_.findings.warning(
          path_,
          fmt::format("{} is the string {}; DeepSpeed converts it, other readers may not", path_, shown_value(value_)),
          fmt::format("write {} without quotes", *number), *number);
    }
    check_limits(static_cast<double>(*number));
  }

  void check_number() {
    if (path_ == "fp16.loss_scale" && value_.is_boolean()) return wrong("a truth value is refused here");
    const auto number = coerce_number(value_);
    if (!number || std::isnan(*number)) return wrong("");
    if (path_ == "fp16.loss_scale" && !std::isfinite(*number)) return wrong("it must be finite");
    if (!strict_ && !value_.is_number()) {
      return wrong("nothing converts it", value_.is_string() ? Json(*number) : Json(nullptr));
    }
    check_limits(*number);
  }

  void check_choice() {
    if (!value_.is_string()) return wrong("");
    const std::string text = key_.any_case ? lower_case(value_.get<std::string>()) : value_.get<std::string>();
    std::vector<std::string> names = split(key_.choices, '|');
    std::vector<std::string_view> views;
    for (const std::string& name : names) {
      if (text == (key_.any_case ? lower_case(name) : name)) return;
      views.push_back(name);
    }
    const std::string near = nearest_name(value_.get<std::string>(), views);
    wrong("", near.empty() ? Json(nullptr) : Json(near));
  }

  Workspace& work_;
  bool strict_;
  const KeySpec& key_;
  const std::string& path_;
  const Json& value_;
};

}  // namespace

bool is_batch_key(std::string_view path) {
  return path == "train_batch_size" || path == "train_micro_batch_size_per_gpu" ||
         path == "gradient_accumulation_steps";
}

void check_value(Workspace& work, Reading reading, const KeySpec& key, const std::string& path, const Json& value) {
  ValueCheck(work, reading, key, path, value).run();
}

}  // namespace zeroplan::planner::deepspeed
