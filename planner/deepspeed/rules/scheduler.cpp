#include <algorithm>

#include <fmt/format.h>

#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/near_names.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/schema/class_parameters.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

std::string path_of(std::string_view name) {
  return "scheduler.params." + std::string(name);
}

void report_unknown_type(Workspace& work, const std::string& type) {
  std::vector<std::string_view> names;
  for (const ClassSpec& spec : scheduler_classes()) names.push_back(spec.name);
  std::string near = nearest_name(type, names);
  if (type == "linear") near = "WarmupDecayLR";
  if (type == "cosine") near = "WarmupCosineLR";
  if (type == "constant" || type == "constant_with_warmup") near = "WarmupLR";
  work.findings.error(
      "scheduler.type",
      fmt::format("scheduler type {} is neither one of DeepSpeed's nor a class of torch.optim.lr_scheduler (names are "
                  "exact)",
                  quoted_text(type)),
      near.empty() ? "write WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest" : "write " + near,
      near.empty() ? Json(nullptr) : Json(near));
}

void check_parameters(Workspace& work, const ClassSpec& spec) {
  if (spec.needs_objects) {
    work.findings.error("scheduler.type",
                        fmt::format("{} needs functions or other schedulers, which a JSON file cannot hold", spec.name),
                        "pass the scheduler in the code, or write WarmupLR, WarmupDecayLR or WarmupCosineLR");
    return;
  }
  const Json* params = work.filled.find("scheduler.params");
  for (const std::string_view name : names_of(spec.required)) {
    if (params != nullptr && params->is_object() && params->contains(name)) continue;
    const bool filled = work.is_trainer() && name == "total_num_steps";
    work.findings.error(path_of(name), fmt::format("{} needs {}", spec.name, name),
                        filled ? "write \"auto\"" : "write a value", filled ? Json("auto") : Json(nullptr));
  }
  if (params == nullptr || !params->is_object()) return;
  const std::vector<std::string_view> known = names_of(spec.parameters);
  for (const auto& [name, value] : params->items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest_name(name, known);
    work.findings.error(path_of(name), fmt::format("{} is no parameter of {}: its constructor fails", name, spec.name),
                        near.empty() ? "remove it" : "write " + near, near.empty() ? Json(nullptr) : Json(near));
  }
}

void check_cycle(Workspace& work) {
  const double first = work.number(path_of("cycle_first_step_size"), 2000);
  const double second = work.number(path_of("cycle_second_step_size"), first);
  if (first <= 0) {
    work.findings.error(path_of("cycle_first_step_size"),
                        fmt::format("cycle_first_step_size is {}, expected more than 0", shown_number(first)),
                        "write 2000", 2000);
  }
  if (second < 0) {
    work.findings.error(path_of("cycle_second_step_size"),
                        fmt::format("cycle_second_step_size is {}, expected at least 0", shown_number(second)),
                        "leave the key out: it is as the first");
  }
}

/// Parameters of DeepSpeed's own schedulers are numbers, but for a few.
void check_numbers(Workspace& work, const ClassSpec& spec) {
  if (spec.is_torch) return;
  for (const std::string_view name : names_of(spec.parameters)) {
    const std::string path = path_of(name);
    const Json* value = work.filled.find(path);
    if (value == nullptr || *value == "auto" || name == "warmup_type" || work.findings.has_error(path)) continue;
    const bool is_flag = name == "cycle_momentum" || name == "lr_range_test_staircase";
    const bool may_be_null =
        name == "warmup_max_lr" || name == "cycle_second_step_size" || name == "cycle_second_stair_count";
    const bool one_a_group = value->is_array() && name.ends_with("_lr");
    if (is_flag || value->is_number() || value->is_boolean() || (value->is_null() && may_be_null) || one_a_group)
      continue;
    const auto meant = value->is_string() ? coerce_number(*value) : std::nullopt;
    work.findings.error(path,
                        fmt::format("{} is {} ({}), expected a number", path, shown_value(*value), kind_of(*value)),
                        "write a number without quotes", meant ? Json(*meant) : Json(nullptr));
  }
}

/// Steps that must be a positive integer, written as one (500.0 is refused).
void check_positive_steps(Workspace& work, std::string_view name) {
  const std::string path = path_of(name);
  const Json* value = work.filled.find(path);
  if (value == nullptr || *value == "auto") return;
  const auto number = value->is_number() ? coerce_integer(*value) : std::nullopt;
  const bool is_integer = value->is_number_integer() || value->is_boolean();
  if (is_integer && number && *number > 0) return;
  if (!value->is_number()) {
    if (!work.findings.has_error(path)) {
      work.findings.error(
          path, fmt::format("{} is {} ({}), expected a positive integer", path, shown_value(*value), kind_of(*value)),
          "write an integer");
    }
    return;
  }
  const std::string by_trainer = work.given.is_auto(path) ? " (auto, filled from the trainer's warmup_steps)" : "";
  work.findings.error(
      path,
      fmt::format("{} is {}{}: DeepSpeed since July 2026 takes positive integers only", path, value->dump(),
                  by_trainer),
      number && *number > 0 ? fmt::format("write {}", *number) : "write 2 or more, or leave the key out",
      number && *number > 0 ? Json(*number) : Json(2));
}

void check_warmup(Workspace& work) {
  const std::string path = path_of("warmup_num_steps");
  check_positive_steps(work, "warmup_num_steps");
  const Json* value = work.filled.find(path);
  if (value != nullptr && value->is_number()) {
    const auto steps = coerce_integer(*value);
    if (steps && (*steps == 0 || *steps == 1)) {
      work.findings.warning(
          path,
          fmt::format("warmup_num_steps {}: the logarithmic warm-up divides by log(n), so that 0 and 1 are raised "
                      "to 2 (older releases crash)",
                      *steps),
          "write at least 2", 2);
    }
    const std::int64_t total = work.integer(path_of("total_num_steps"), -1);
    if (steps && total > 0 && *steps > total) {
      work.findings.warning(
          path,
          fmt::format("warmup_num_steps {} exceeds total_num_steps {}: the rate never reaches its maximum", *steps,
                      total),
          fmt::format("write less than {}", total));
    }
  }
  const Json* kind = work.filled.find(path_of("warmup_type"));
  if (kind != nullptr && *kind != "log" && *kind != "linear") {
    work.findings.warning(path_of("warmup_type"),
                          fmt::format("warmup_type {} is unknown: DeepSpeed takes log", shown_value(*kind)),
                          "write log or linear", "linear");
  }
}

void check_total(Workspace& work) {
  const std::string path = path_of("total_num_steps");
  const Json* value = work.filled.find(path);
  if (value == nullptr || *value == "auto" || work.findings.has_error(path)) return;
  const auto number = value->is_number() ? coerce_number(*value) : std::nullopt;
  if (!number || *number <= 0) {
    work.findings.error(path, fmt::format("total_num_steps is {}, expected a positive integer", shown_value(*value)),
                        "write the number of updates");
  }
}

}  // namespace

void check_scheduler(Workspace& work) {
  const std::string type = work.word("scheduler.type", "");
  if (type.empty()) {
    const Json* section = work.given.find("scheduler");
    if (section != nullptr && section->is_object()) {
      work.findings.warning("scheduler", "the scheduler section has no type, so that DeepSpeed ignores it",
                            "write a type", "WarmupLR");
    }
    return;
  }
  const ClassSpec* spec = find_scheduler_class(type);
  if (spec == nullptr) return report_unknown_type(work, type);
  check_parameters(work, *spec);
  if (type.starts_with("Warmup")) {
    check_warmup(work);
    if (type != "WarmupLR") check_total(work);
  }
  if (type == "LRRangeTest") check_positive_steps(work, "lr_range_test_step_size");
  check_numbers(work, *spec);
  if (type == "OneCycle") check_cycle(work);
  if (work.is_trainer() && work.arguments.scheduler_given) {
    const std::string& asked = work.arguments.lr_scheduler_type;
    const bool same = (type == "WarmupDecayLR" && asked == "linear") ||
                      (type == "WarmupLR" && asked == "constant_with_warmup") ||
                      (type == "WarmupCosineLR" && asked == "cosine");
    if (!same) {
      work.findings.warning(
          "scheduler.type",
          fmt::format("the file's {} is used, the trainer's lr_scheduler_type {} is ignored", type, asked),
          "remove the section to use the trainer's scheduler");
    }
  }
}

}  // namespace zeroplan::planner::deepspeed
