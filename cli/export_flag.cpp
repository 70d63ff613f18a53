#include "cli/export_flag.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/file_io.h"
#include "models/core/text.h"
#include "simulator/profiles/profile.h"

namespace zeroplan::cli {

void ExportFlag::add_to(CLI::App& app) {
  app.add_option("--export", texts_,
                 "KIND=FILE ...: deepspeed (JSON), accelerate or fsdp (YAML), of the best strategy");
}

void ExportFlag::parse() {
  for (const std::string& text : texts_) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size()) {
      throw Error(ErrorCode::kUsage, fmt::format("--export {}: expected KIND=FILE", text))
          .at({.key = "--export", .value = text})
          .hint("for example --export deepspeed=ds_config.json");
    }
    files_.push_back({reports::parse_export_kind(text.substr(0, equals)), text.substr(equals + 1)});
  }
}

std::string ExportFlag::write(reports::ExportSource source) const {
  for (const File& file : files_) {
    if (file.kind == reports::ExportKind::kDeepspeed) source.deepspeed_file = file.path;
  }
  std::string lines;
  for (const File& file : files_) {
    write_file_atomically(file.path, reports::export_text(file.kind, source));
    lines += fmt::format("  {} settings written to {}\n", reports::to_string(file.kind), file.path);
  }
  return lines;
}

std::vector<std::string> native_predictions(const planner::Plan& plan, const planner::RunRecord& predicted) {
  const Bytes need = plan.tier(planner::Tier::kDevice).arena + plan.machine.context_bytes;
  std::vector<std::string> lines = {
      fmt::format("predicted for zeroplan's own runtime: {} on each GPU, {} a step, {:.0f} tokens/s", format_size(need),
                  format_duration(predicted.step), predicted.tokens_per_s)};
  for (const planner::Framework framework : {planner::Framework::kDeepspeed, planner::Framework::kFsdp2}) {
    planner::TrainingSpec training = plan.training;
    training.framework = framework;
    try {
      const simulator::TrainedParameters trained = simulator::trained_parameters(plan.model, training);
      const simulator::PeakPrediction peak =
          simulator::predict_peak({plan.model, trained, training, plan.strategy, &plan.machine, {}});
      const Bytes peak_bytes(peak.process_bytes());
      std::string line = fmt::format("predicted for {}: {} on each GPU with these settings",
                                     planner::name_of(framework), format_size(peak_bytes));
      if (plan.machine.device_bytes && peak_bytes > *plan.machine.device_bytes) {
        line += fmt::format(", more than the {} there: tune with --framework {}",
                            format_size(*plan.machine.device_bytes), planner::name_of(framework));
      }
      lines.push_back(std::move(line));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      lines.push_back(fmt::format("no prediction for {}: {}", planner::name_of(framework), e.message()));
    }
  }
  return lines;
}

}  // namespace zeroplan::cli
