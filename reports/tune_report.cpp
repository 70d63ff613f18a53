#include "reports/tune_report.h"

#include <fmt/format.h>

#include "models/core/text.h"
#include "reports/plan_report.h"

namespace zeroplan::reports {
namespace {

using planner::RankedPlan;
using planner::RejectedStrategy;
using planner::TuneResult;

Json limit_json(const std::optional<planner::Tier>& limit) {
  return limit ? Json(planner::name_of(*limit)) : Json(nullptr);
}

Json ranked_json(const TuneResult& result, const TuneSubject& subject) {
  Json list = Json::array();
  for (const RankedPlan& ranked : result.ranked) {
    list.push_back({{"rank", list.size() + 1},
                    {"fits", planner::name_of(ranked.fit.verdict)},
                    {"strategy", strategy_json(subject.training, ranked.plan.strategy)},
                    {"tiers", tiers_json(ranked.plan)},
                    {"predicted", predicted_json(ranked.predicted)},
                    {"binds", planner::name_of(ranked.binds)},
                    {"why", ranked.why}});
  }
  return list;
}

Json rejected_json(const TuneResult& result, const TuneSubject& subject) {
  Json list = Json::array();
  for (const RejectedStrategy& rejected : result.rejected) {
    list.push_back({{"strategy", strategy_json(subject.training, rejected.strategy)},
                    {"limit", limit_json(rejected.limit)},
                    {"device_bytes", rejected.device_need.count()},
                    {"device_bytes_is_bound", rejected.is_bound},
                    {"reason", rejected.reason}});
  }
  return list;
}

Json pareto_json(const TuneResult& result, const TuneSubject& subject) {
  Json list = Json::array();
  for (const planner::ParetoPoint& point : result.pareto) {
    list.push_back({{"device_bytes", point.device_need.count()},
                    {"tokens_per_s", point.tokens_per_s},
                    {"fits", point.fits},
                    {"strategy", strategy_json(subject.training, point.strategy)}});
  }
  return list;
}

Json what_if_json(const TuneResult& result, const TuneSubject& subject) {
  Json list = Json::array();
  for (const planner::WhatIf& change : result.what_if) {
    list.push_back({{"change", change.change},
                    {"tokens_per_s", change.strategy ? Json(change.tokens_per_s) : Json(nullptr)},
                    {"strategy", change.strategy ? strategy_json(subject.training, *change.strategy) : Json(nullptr)}});
  }
  return list;
}

Json account_json(const planner::SearchAccount& account) {
  return {{"outlines", account.outlines},
          {"leaves", account.leaves},
          {"simulated", account.simulated},
          {"laid_out", account.laid_out},
          {"pruned_by_arithmetic", account.pruned_by_arithmetic},
          {"pruned_by_lane", account.pruned_by_lane},
          {"pruned_by_memory", account.pruned_by_memory}};
}

std::string recompute_cell(const planner::Strategy& s) {
  if (s.recompute != planner::Recompute::kFull) return std::string(planner::name_of(s.recompute));
  return fmt::format("full {}", s.recompute_blocks);
}

std::string table_text(const TuneResult& result) {
  std::string text =
      fmt::format("  {:>4} {:>5} {:>7} {:<9} {:>4} {:>11} {:>11} {:>9} {:>11}  {:<5} {}\n", "rank", "stage", "batch",
                  "recompute", "head", "device", "step", "tokens/s", "exposed", "fits", "binds");
  std::size_t rank = 0;
  for (const RankedPlan& ranked : result.ranked) {
    const planner::Strategy& s = ranked.plan.strategy;
    const Bytes need = ranked.plan.tier(planner::Tier::kDevice).arena + ranked.plan.machine.context_bytes;
    text += fmt::format("  {:>4} {:>5} {:>7} {:<9} {:>4} {:>11} {:>11} {:>9.0f} {:>11}  {:<5} {}\n", ++rank, s.stage,
                        fmt::format("{}x{}", s.micro_batch, s.accumulation), recompute_cell(s), s.head_chunks,
                        format_size(need), format_duration(ranked.predicted.step), ranked.predicted.tokens_per_s,
                        format_duration(ranked.predicted.exposed_comm), planner::name_of(ranked.fit.verdict),
                        planner::name_of(ranked.binds));
  }
  return text;
}

constexpr std::size_t kRejectedShown = 6;

}  // namespace

Json tune_document(const TuneResult& result, const TuneSubject& subject) {
  return {{"model", {{"name", subject.model.name}, {"family", subject.model.family}, {"source", subject.model.source}}},
          {"framework", planner::name_of(subject.training.framework)},
          {"gpus", subject.training.gpus},
          {"nodes", subject.training.nodes},
          {"candidates_considered", result.account.simulated},
          {"elapsed_ms", subject.elapsed_s * 1e3},
          {"ranked", ranked_json(result, subject)},
          {"rejected", rejected_json(result, subject)},
          {"pareto", pareto_json(result, subject)},
          {"what_if", what_if_json(result, subject)},
          {"search", account_json(result.account)},
          {"notes", result.notes}};
}

std::string tune_text(const TuneResult& result, const TuneSubject& subject) {
  std::string text = fmt::format("{} on {} x {}: ", subject.model.name, subject.training.gpus, subject.machine.name);
  text += result.ranked.empty() ? "nothing fits\n"
                                : fmt::format("{} tokens a sequence, {} (predicted)\n\n", subject.training.seq,
                                              planner::name_of(subject.training.precision));
  if (!result.ranked.empty()) {
    text += table_text(result) + "\n  why rank 1\n";
    for (const std::string& reason : result.ranked.front().why) text += fmt::format("    - {}\n", reason);
  }
  std::size_t shown = 0;
  for (const RejectedStrategy& rejected : result.rejected) {
    if (!rejected.limit || shown == kRejectedShown) continue;
    text += fmt::format("{}    - {}\n", shown++ == 0 ? "\n  what does not fit\n" : "", rejected.reason);
  }
  if (result.pareto.size() > 1)
    text += "\n  memory against speed (of the plans laid out, none is both smaller and faster)\n";
  for (const planner::ParetoPoint& point : result.pareto) {
    if (result.pareto.size() < 2) break;
    text +=
        fmt::format("    {:>11}  {:>9.0f} tokens/s  stage {}, {}x{}, recompute {}{}\n", format_size(point.device_need),
                    point.tokens_per_s, point.strategy.stage, point.strategy.micro_batch, point.strategy.accumulation,
                    recompute_cell(point.strategy), point.fits ? "" : "  (does not fit)");
  }
  const planner::SearchAccount& a = result.account;
  text += fmt::format(
      "\n  search: {} strategies in {} outlines; {} scheduled and simulated, {} of them laid out;\n"
      "          left out by a bound: {} by their arithmetic, {} by their busiest lane, {} by the memory they keep\n",
      format_count(a.leaves), format_count(a.outlines), format_count(a.simulated), format_count(a.laid_out),
      format_count(a.pruned_by_arithmetic), format_count(a.pruned_by_lane), format_count(a.pruned_by_memory));
  for (const std::string& note : result.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

}  // namespace zeroplan::reports
