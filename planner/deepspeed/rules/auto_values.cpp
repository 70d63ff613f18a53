#include <fmt/format.h>

#include "planner/deepspeed/hidden_size.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/schema/schema.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr const char* kWidthKeys[] = {"zero_optimization.reduce_bucket_size",
                                      "zero_optimization.stage3_prefetch_bucket_size",
                                      "zero_optimization.stage3_param_persistence_threshold"};

std::string leaf(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

std::string list_of(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + leaf(path);
  return text;
}

/// h x h, int(0.9 x h x h) in double arithmetic as both integrations compute it, 10 x h.
Json width_value(std::string_view path, std::uint64_t hidden) {
  if (path == kWidthKeys[0]) return hidden * hidden;
  if (path == kWidthKeys[1])
    return static_cast<std::uint64_t>(0.9 * static_cast<double>(hidden) * static_cast<double>(hidden));
  return 10 * hidden;
}

void report_width_missing(Workspace& work, const std::vector<std::string>& autos) {
  const bool no_model = work.input.model_config.is_null();
  const std::string what =
      no_model ? "no --model is given, so their width is not known here"
               : "the model's config has neither hidden_size nor hidden_sizes, nor a text_config with one";
  const std::string message =
      fmt::format("{}: {}; these keys are auto and follow from hidden_size", list_of(autos), what);
  if (no_model) {
    work.findings.info(autos.front(), message, "give --model to see the values");
  } else {
    work.findings.error(autos.front(), message, fmt::format("write whole numbers for {}", list_of(autos)));
  }
}

/// Calls `visit(path, value)` for every member that is no object.
template <class Visit>
void for_each_leaf(const Json& node, const std::string& path, const Visit& visit) {
  for (const auto& [name, value] : node.items()) {
    const std::string member = path.empty() ? name : fmt::format("{}.{}", path, name);
    if (value.is_object()) {
      for_each_leaf(value, member, visit);
    } else {
      visit(member, value);
    }
  }
}

const KeySpec* spec_of(std::string_view path, const SectionSpec** section) {
  const std::size_t dot = path.rfind('.');
  *section = find_section(dot == std::string_view::npos ? std::string_view() : path.substr(0, dot));
  return *section == nullptr ? nullptr : (*section)->find(path.substr(dot == std::string_view::npos ? 0 : dot + 1));
}

std::string consequence(const std::string& path, const SectionSpec* section, const KeySpec* key) {
  if (section != nullptr && section->reading == Reading::kStrict && key != nullptr) {
    return fmt::format("DeepSpeed silently takes its default {}", key->default_text);
  }
  if (path.starts_with("optimizer.") || path.starts_with("scheduler."))
    return "the constructor gets the text \"auto\" and fails";
  return "DeepSpeed compares the text \"auto\" with numbers and fails";
}

}  // namespace

void fill_model_sizes(Workspace& work) {
  std::vector<std::string> autos;
  for (const char* path : kWidthKeys) {
    if (work.filled.is_auto(path)) autos.emplace_back(path);
  }
  if (autos.empty()) return;
  const auto hidden = find_hidden_size(work.input.model_config);
  if (!hidden) return report_width_missing(work, autos);
  const bool found_by_reader = work.is_trainer() ? hidden->trainer_finds : hidden->accelerate_finds;
  if (!found_by_reader) {
    work.findings.error(
        autos.front(),
        fmt::format("{}: the width is {} ({}), but {} looks for hidden_size only where it is not, and stops",
                    list_of(autos), hidden->value, hidden->path, work.is_trainer() ? "the trainer" : "Accelerate"),
        "write the numbers instead of auto", width_value(autos.front(), hidden->value));
  }
  for (const std::string& path : autos) work.filled.set(path, width_value(path, hidden->value));
}

void report_unfilled_autos(Workspace& work) {
  for_each_leaf(work.filled.root(), "", [&work](const std::string& path, const Json& value) {
    if (value != "auto" || work.findings.has_error(path)) return;
    const SectionSpec* section = nullptr;
    const KeySpec* key = spec_of(path, &section);
    if (key != nullptr && key->may_be_auto && !work.someone_fills()) return;
    if (!work.someone_fills()) {
      std::string fix = "write a value";
      Json suggest = nullptr;
      if (key != nullptr && key->default_text != "null") {
        suggest = parse_bare_value(key->default_text).value_or(Json(nullptr));
        fix = fmt::format("write a value, such as the default {}", key->default_text);
      }
      work.findings.error(path,
                          fmt::format("{} is \"auto\", which only the Hugging Face trainer and Accelerate fill: {}",
                                      path, consequence(path, section, key)),
                          fix, suggest);
      return;
    }
    for (const char* width_key : kWidthKeys) {
      if (path == width_key) return;  // said by fill_model_sizes
    }
    if (path == "scheduler.params.total_num_steps" || path == "scheduler.params.warmup_num_steps") {
      if (work.is_trainer()) return;  // said by match_trainer_arguments
    }
    const bool known_later = path.starts_with("train_") || path.starts_with("scheduler.params.") ||
                             path == "optimizer.params.lr" || path == "optimizer.params.weight_decay";
    if (work.is_accelerate() && known_later && path != "scheduler.params.warmup_type") {
      work.findings.info(path, fmt::format("{} is auto: Accelerate fills it from the objects given to prepare()", path),
                         "say it with --args or --micro-batch to see the value");
      return;
    }
    work.findings.error(path,
                        fmt::format("{} is \"auto\", but nobody fills this key: {} stops", path,
                                    work.is_trainer() ? "the trainer" : "Accelerate"),
                        "write a value");
  });
}

}  // namespace zeroplan::planner::deepspeed
