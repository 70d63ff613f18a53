#include "reports/record_text.h"

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::reports {
namespace {

constexpr std::size_t kHoldersShown = 5;

std::string lane_lines(const planner::RunRecord& record) {
  std::string text;
  for (const auto& [lane, name] : planner::kNamesOf<planner::Lane>) {
    const planner::LaneRecord& l = record.lane(lane);
    if (l.tasks == 0) continue;
    const double part = record.step.value() > 0 ? 100 * (l.busy / record.step) : 0;
    text +=
        fmt::format("  {:<9} {:>10}  {:>5.1f} % of the step, {} tasks\n", name, format_duration(l.busy), part, l.tasks);
  }
  return text;
}

std::string tier_lines(const planner::RunRecord& record) {
  std::string text;
  for (const auto& [tier, name] : planner::kNamesOf<planner::Tier>) {
    const planner::TierRecord& t = record.tier(tier);
    if (t.planned == Bytes()) continue;
    text += fmt::format("  {:<9} {:>10} planned, {} used\n", name, format_size(t.planned),
                        t.used ? format_size(*t.used) : "?");
    for (std::size_t i = 0; i < std::min(kHoldersShown, t.holders.size()); ++i) {
      text += fmt::format("            {:>10} {}\n", format_size(t.holders[i].bytes), t.holders[i].name);
    }
    if (t.holders.size() > kHoldersShown)
      text += fmt::format("            and {} more\n", t.holders.size() - kHoldersShown);
  }
  return text;
}

}  // namespace

std::string record_text(const planner::RunRecord& record) {
  const bool simulated = record.source == planner::RecordSource::kSimulated;
  return fmt::format("one update {} {}: {:.0f} tokens/s over {} rank(s), {} waiting for communication\n",
                     simulated ? "is predicted to take" : "took", format_duration(record.step), record.tokens_per_s,
                     record.gpus, format_duration(record.exposed_comm)) +
         "lanes\n" + lane_lines(record) +
         fmt::format("moved per rank: {} gathered, {} reduced\n", format_size(record.moved.gather),
                     format_size(record.moved.reduce)) +
         "memory per rank, with what fills it at the peak\n" + tier_lines(record);
}

}  // namespace zeroplan::reports
