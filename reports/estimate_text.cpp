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

/// What the budget allows: sizes that fit, and the first things to try where the run does not.
std::string budget_section(const EstimateReport& report, const PeakRow& row) {
  const simulator::BudgetAnswer& answer = *row.budget;
  const std::string budget = size(report.machine->device_bytes->count());
  std::string text;
  if (!answer.changes.empty()) text += fmt::format("  does not fit {}; first things to try:\n", budget);
  for (std::size_t i = 0; i < answer.changes.size(); ++i) {
    const simulator::Change& c = answer.changes[i];
    text += fmt::format("    {}. {:<44} saves {:>11}: {:>11}, {}\n", i + 1, c.flags, size(c.saved_bytes),
                        size(c.process_bytes), c.fits ? "fits" : "too large still");
    text += fmt::format("       {}\n", c.why);
  }
  if (answer.largest_micro_batch == 0) {
    text += fmt::format("  {} hold no micro-batch of {} tokens", budget, report.spec.seq);
  } else {
    text += fmt::format("  {} hold micro-batch {} of {} tokens", budget, answer.largest_micro_batch, report.spec.seq);
  }
  if (answer.largest_seq == 0) return text + ", and no shorter one\n";
  return text + fmt::format(", or {} tokens at micro-batch {}\n", answer.largest_seq, row.strategy.micro_batch);
}

std::string peak_section(const EstimateReport& report, const PeakRow& row) {
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
  if (row.budget) text += budget_section(report, row);
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
  for (const PeakRow& row : report.peaks) text += peak_section(report, row);
  const bool answered = report.peaks.empty() || report.peaks.front().budget;
  if (!answered)
    text += "\nWith --budget SIZE: the largest micro-batch and sequence that fit, and what to try if none does.\n";
  for (const std::string& note : report.notes) text += "\nnote: " + note;
  if (!report.notes.empty()) text += "\n";
  return text;
}

std::string beside_deepspeed_text(const EstimateReport& report) {
  std::string text = states_table(report);
  for (const PeakRow& row : report.peaks) {
    text += fmt::format("  stage {}: predicted peak {}, process {}\n", row.strategy.stage,
                        size(row.peak.allocated_bytes), size(row.peak.process_bytes()));
  }
  return text +
         "\nDeepSpeed's figures leave out activations, logits and loss, communication buckets, temporaries of the\n"
         "update, what the allocator holds beyond them, and the context of the driver.\n";
}

}  // namespace zeroplan::reports
