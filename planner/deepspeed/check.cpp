#include "planner/deepspeed/check.h"

#include <fmt/format.h>

#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Whole floats of integer keys become integers, so that every reader takes them.
void write_integers(ConfigTree& tree) {
  for (const SectionSpec& section : all_sections()) {
    const Json* node = section.path.empty() ? &tree.root() : tree.find(section.path);
    if (node == nullptr || !node->is_object()) continue;
    std::vector<std::pair<std::string, std::int64_t>> changes;
    for (const auto& [name, value] : node->items()) {
      const KeySpec* key = section.find(name);
      if (key == nullptr || key->type != ValueType::kInteger || !value.is_number_float()) continue;
      const std::string path = section.path.empty() ? name : fmt::format("{}.{}", section.path, name);
      if (const auto whole = coerce_integer(value)) changes.emplace_back(path, *whole);
    }
    for (const auto& [path, whole] : changes) tree.set(path, whole);
  }
  for (const char* path : {"scheduler.params.total_num_steps", "scheduler.params.warmup_num_steps"}) {
    const Json* value = tree.find(path);
    const auto whole = value != nullptr && value->is_number_float() ? coerce_integer(*value) : std::nullopt;
    if (whole) tree.set(path, *whole);
  }
}

TrainerArguments arguments_of(const CheckInput& input, Findings& findings) {
  TrainerArguments arguments;
  try {
    arguments = read_trainer_arguments(input.trainer_arguments);
  } catch (const Error& e) {
    findings.error("args", e.message(), "write an object of trainer arguments");
  }
  for (const std::string& problem : arguments.problems) findings.error("args", problem, "correct the argument");
  return arguments;
}

/// A rule that meets sizes beyond 64 bits says so instead of stopping the others.
template <class Rule>
void run(Rule rule, Workspace& work) {
  try {
    rule(work);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kOverflow) throw;
    work.findings.error("train_batch_size", "batch sizes, ranks or model sizes are too large: " + e.message(),
                        "write smaller numbers");
  }
}

void check_config(const CheckInput& input, const ConfigText& text, const ConfigTree& given, Findings& findings,
                  CheckReport& report) {
  Workspace work{input, text, given, given, arguments_of(input, findings), findings, report};
  report_reader_remarks(work);
  run(check_keys_and_types, work);
  if (work.is_trainer()) run(match_trainer_arguments, work);
  if (work.someone_fills()) {
    run(fill_for_accelerate, work);
    run(fill_model_sizes, work);
  }
  run(report_unfilled_autos, work);
  run(resolve_batch, work);
  for (auto rule : {check_optimizer, check_scheduler, check_precision, check_stage, check_offload, check_saving,
                    check_accelerate_config, check_memory}) {
    run(rule, work);
  }
  explain_error_log(findings, input, report, &work);
  write_integers(work.filled);
  report.filled = work.filled.root();
}

}  // namespace

ConfigReader parse_config_reader(const std::string& text) {
  if (text == "deepspeed") return ConfigReader::kDeepspeed;
  if (text == "hf-trainer") return ConfigReader::kHfTrainer;
  if (text == "accelerate") return ConfigReader::kAccelerate;
  throw Error(ErrorCode::kUsage, fmt::format("--framework {}: expected deepspeed, hf-trainer or accelerate", text))
      .at({.key = "--framework", .value = text});
}

CheckReport check(const CheckInput& input) {
  CheckReport report;
  report.resolved.world_size = std::max<std::uint64_t>(input.training.gpus, 1);
  std::optional<ConfigText> text;
  Findings unread(nullptr, nullptr);
  if (input.config_text) {
    try {
      text = read_config_text(*input.config_text, input.config_file);
    } catch (const Error& e) {
      unread.add_at(Severity::kError, "json", {e.place().line.value_or(0), e.place().column.value_or(0)}, e.message(),
                    "correct the text so that it is one JSON object");
    }
  }
  const ConfigTree given = text ? ConfigTree(text->root) : ConfigTree();
  Findings findings(text ? &*text : nullptr, text ? &given : nullptr);
  if (text) {
    check_config(input, *text, given, findings, report);
  } else {
    explain_error_log(findings, input, report, nullptr);
  }
  check_environment(findings, input);
  report.findings = findings.sorted();
  for (Finding finding : unread.all()) {
    finding.where["file"] = input.config_file;
    report.findings.insert(report.findings.begin(), std::move(finding));
  }
  return report;
}

std::size_t CheckReport::count(Severity severity) const {
  std::size_t n = 0;
  for (const Finding& finding : findings) n += finding.severity == severity ? 1 : 0;
  return n;
}

Json ResolvedBatch::to_json() const {
  return {{"world_size", world_size},
          {"train_batch_size", train_batch_size},
          {"train_micro_batch_size_per_gpu", micro_batch_size},
          {"gradient_accumulation_steps", accumulation_steps}};
}

Json Explanation::to_json() const {
  return {{"name", name},
          {"dtype", dtype},
          {"bytes", bytes},
          {"formula", formula},
          {"tokens", tokens ? Json(*tokens) : Json(nullptr)}};
}

Json CheckReport::to_json() const {
  Json listed = Json::array();
  for (const Finding& finding : findings) listed.push_back(finding.to_json());
  Json explained = Json::array();
  for (const Explanation& explanation : explanations) explained.push_back(explanation.to_json());
  const auto or_null = [](const std::optional<std::uint64_t>& n) { return n ? Json(*n) : Json(nullptr); };
  return {{"errors", count(Severity::kError)},
          {"warnings", count(Severity::kWarning)},
          {"findings", listed},
          {"resolved", resolved.to_json()},
          {"filled", filled},
          {"computed",
           {{"num_training_steps", or_null(training_steps)},
            {"overflow_steps_until_stop", or_null(overflow_steps_until_stop)}}},
          {"explain", explained}};
}

}  // namespace zeroplan::planner::deepspeed
