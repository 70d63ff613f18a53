#include "planner/deepspeed/check.h"

#include <filesystem>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/run_flags.h"
#include "models/core/file_io.h"
#include "models/core/text.h"
#include "models/load_model.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::cli {
namespace {

namespace ds = planner::deepspeed;

constexpr Bytes kMostText(std::uint64_t{4} << 20);

std::string read_standard_input() {
  std::string text;
  char block[4096];
  while (text.size() < kMostText.count() && (std::cin.read(block, sizeof block) || std::cin.gcount() > 0)) {
    text.append(block, static_cast<std::size_t>(std::cin.gcount()));
  }
  return text;
}

std::map<std::string, std::string> parse_environment(const std::vector<std::string>& assignments) {
  std::map<std::string, std::string> environment;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorCode::kUsage, fmt::format("--env {}: expected KEY=VALUE", assignment))
          .at({.key = "--env", .value = assignment});
    }
    environment[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return environment;
}

std::string painted(std::string_view severity, bool colored) {
  if (!colored) return std::string(severity);
  const int code = severity == "error" ? 31 : severity == "warning" ? 33 : 36;
  return fmt::format("\033[{}m{}\033[0m", code, severity);
}

std::string text_of(const ds::CheckReport& report, const std::string& file, bool colored) {
  std::string text;
  for (const ds::Finding& finding : report.findings) {
    std::string place;
    if (finding.where.is_object() && finding.where.contains("line") && !file.empty()) {
      place = fmt::format("{}:{}:{}: ", file, finding.where["line"].dump(), finding.where["column"].dump());
    }
    text += fmt::format("{}{}: {}: {}\n", place, painted(to_string(finding.severity), colored), finding.key,
                        finding.message);
    text += fmt::format("    fix: {}\n", finding.fix);
  }
  for (const ds::Explanation& explanation : report.explanations) {
    text += fmt::format("  {:>12}  {} {}  = {}\n", format_size(Bytes(explanation.bytes)), explanation.name,
                        explanation.dtype, explanation.formula);
  }
  const auto shown = [](const Json& value) { return value.is_null() ? std::string("?") : ds::shown_value(value); };
  if (!report.filled.is_null()) {
    text += fmt::format("batch: {} = {} per rank x {} accumulated x {} ranks\n",
                        shown(report.resolved.train_batch_size), shown(report.resolved.micro_batch_size),
                        shown(report.resolved.accumulation_steps), report.resolved.world_size);
  }
  text +=
      fmt::format("{} errors, {} warnings\n", report.count(ds::Severity::kError), report.count(ds::Severity::kWarning));
  return text;
}

class CheckCommand : public Command {
 public:
  std::string name() const override { return "check"; }
  std::string description() const override {
    return "find what is wrong in a ds_config.json, fill every auto, explain failures";
  }

  void add_flags(CLI::App& app) override {
    app.add_option("CONFIG", config_, "ds_config.json");
    app.add_option("--framework", framework_, "who reads CONFIG: deepspeed, hf-trainer or accelerate (deepspeed)");
    app.add_option("--model", model_, "a folder with config.json, a config, a safetensors file, or a preset");
    app.add_option("--args", arguments_, "the trainer's arguments as JSON");
    app.add_option("--accelerate-config", accelerate_, "Accelerate's configuration file");
    app.add_option("--error-log", error_log_, "text of a failure, - for standard input");
    app.add_option("--client-optimizer", client_optimizer_, "the optimizer that the code passes");
    app.add_option("--dataset-rows", dataset_rows_, "rows of the training data");
    app.add_option("--env", environment_, "variables of that run, KEY=VALUE")->take_all();
    app.add_option("--filled", filled_, "writes CONFIG with every auto filled");
    flags_.add_to(app, false);
  }

  Answer run(const GlobalOptions& options) override {
    if (config_.empty() && error_log_.empty()) {
      throw Error(ErrorCode::kUsage, "check needs a CONFIG or --error-log").hint("zeroplan check --help");
    }
    const ds::CheckInput input = collect();
    const ds::CheckReport report = ds::check(input);
    if (!filled_.empty() && !report.filled.is_null()) {
      write_file_atomically(filled_, report.filled.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    }
    Answer answer;
    answer.exit_code = report.count(ds::Severity::kError) > 0 ? kExitNo : kExitDone;
    answer.document = report.to_json();
    answer.text = text_of(report, config_, options.colored());
    return answer;
  }

 private:
  ds::CheckInput collect() const {
    ds::CheckInput input;
    input.reader = ds::parse_config_reader(framework_);
    if (!config_.empty()) {
      input.config_file = config_;
      input.config_text = read_file(config_, kMostText);
    }
    if (!arguments_.empty()) input.trainer_arguments = read_json_file(arguments_);
    if (!accelerate_.empty()) input.accelerate_config = read_file(accelerate_, kMostText);
    if (!error_log_.empty())
      input.error_log = error_log_ == "-" ? read_standard_input() : read_file(error_log_, kMostText);
    if (!client_optimizer_.empty()) input.client_optimizer = client_optimizer_;
    if (!dataset_rows_.empty()) input.dataset_rows = parse_count(dataset_rows_, "--dataset-rows");
    input.environment = parse_environment(environment_);
    if (!model_.empty()) load(input);
    const RunRequest request = flags_.resolve(input.model ? &*input.model : nullptr);
    input.training = request.training;
    input.training.framework = planner::Framework::kDeepspeed;
    input.decisions = request.fixed;
    input.machine = request.machine;
    return input;
  }

  /// An unknown family is no fault: its config's widths count.
  void load(ds::CheckInput& input) const {
    try {
      input.model = models::load_model(model_);
      input.model_config = input.model->config;
    } catch (const Error&) {
      std::filesystem::path path(model_);
      if (std::filesystem::is_directory(path)) path /= "config.json";
      if (!std::filesystem::is_regular_file(path)) throw;
      input.model_config = read_json_file(path);
    }
  }

  std::string config_;
  std::string framework_ = "deepspeed";
  std::string model_;
  std::string arguments_;
  std::string accelerate_;
  std::string error_log_;
  std::string client_optimizer_;
  std::string dataset_rows_;
  std::vector<std::string> environment_;
  std::string filled_;
  RunFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_check_command() {
  return std::make_unique<CheckCommand>();
}

}  // namespace zeroplan::cli
