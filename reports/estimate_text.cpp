#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"
#include "reports/estimate_report.h"

namespace zeroplan::reports {
namespace {

using simulator::Tier;

std::string size(std::uint64_t bytes) {
  return format_size(Bytes(bytes));
}

/// "optimizer to cpu, weights to cpu", or "nothing".
std::string offloads(const planner::Strategy& s) {
  std::string text;
  if (s.offload_optimizer.any()) text += "optimizer " + planner::to_string(s.offload_optimizer);
  if (s.offload_param.any()) text += (text.empty() ? "" : ", ") + ("weights " + planner::to_string(s.offload_param));
  return text.empty() ? "-" : text;
}

std::string states_table(const EstimateReport& report) {
  std::string text = "\nModel states (no activations), per GPU and per node\n";
  text += fmt::format("  {:<7}{:<32}{:>14}{:>14}{:>14}\n", "stage", "offloaded", "GPU", "host", "disk");
  for (const StatesRow& row : report.states) {
    text += fmt::format("  {:<7}{:<32}{:>14}{:>14}{:>14}\n", row.strategy.stage, offloads(row.strategy),
                        size(row.parts.on(Tier::kDevice).count()), size(row.parts.on(Tier::kHost).count()),
                        size(row.parts.on(Tier::kDisk).count()));
  }
  return text;
}

/// Names of presets whose card holds the process.
std::string cards_that_hold(std::uint64_t bytes) {
  std::string names;
  for (const std::string& name : planner::machine_preset_names()) {
    const planner::Machine m = planner::parse_machine(name);
    if (!m.device_bytes || m.device_bytes->count() < bytes) continue;
    names += (names.empty() ? "" : ", ") + name;
    if (fit_word(bytes, m.device_bytes->count()) == "tight") names += " (tight)";
  }
  return names.empty() ? "none of the presets" : names;
}

std::string peak_section(const PeakRow& row) {
  const simulator::PeakPrediction& p = row.peak;
  std::string text = fmt::format("\nPredicted peak, stage {}: {} in {} (reserved {}, process {})\n", row.strategy.stage,
                                 size(p.allocated_bytes), simulator::to_string(p.phase), size(p.reserved_bytes),
                                 size(p.process_bytes()));
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(kShown, p.holders.size()); ++i) {
    const double percent = 100.0 * static_cast<double>(p.holders[i].bytes) / static_cast<double>(p.allocated_bytes);
    text += fmt::format("  {:<52}{:>14}{:>8.1f} %\n", p.holders[i].name, size(p.holders[i].bytes), percent);
  }
  if (p.host_bytes > 0) text += fmt::format("  host memory of a node {}\n", size(p.host_bytes));
  text += fmt::format("  fits on: {}\n", cards_that_hold(p.process_bytes()));
  return text;
}

}  // namespace

std::string estimate_text(const EstimateReport& report) {
  const models::ParameterSummary& s = report.summary;
  std::string text =
      fmt::format("{} ({}): {} parameters in {} tensors, {} trained", report.model->name, report.model->family,
                  format_count(s.total.count()), s.tensor_count, format_count(report.trainable.count()));
  if (s.active != s.total) text += fmt::format(", {} used per token", format_count(s.active.count()));
  text += fmt::format("\n{}, {} GPU{}, {}, {}\n", planner::name_of(report.spec.framework), report.spec.gpus,
                      report.spec.gpus > 1 ? "s" : "", planner::name_of(report.spec.precision),
                      planner::name_of(report.spec.optimizer));
  text += states_table(report);
  for (const PeakRow& row : report.peaks) text += peak_section(row);
  for (const std::string& note : report.notes) text += "\nnote: " + note;
  if (!report.notes.empty()) text += "\n";
  return text;
}

}  // namespace zeroplan::reports
