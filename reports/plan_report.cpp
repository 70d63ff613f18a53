#include "reports/plan_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::reports {
namespace {

using planner::PlanChoice;
using planner::Tier;
using planner::Verdict;

constexpr std::array<Tier, planner::kTierCount> kTiers = {Tier::kDevice, Tier::kHost, Tier::kDisk};

Json tier_json(const planner::Plan& plan, Tier tier) {
  const planner::TierPlan& t = plan.tier(tier);
  const planner::Machine& machine = plan.machine;
  const std::uint64_t ranks = plan.training.ranks_per_node();
  const auto budget = tier == Tier::kDevice ? machine.device_bytes
                      : tier == Tier::kHost ? machine.host_bytes
                                            : machine.disk_bytes;
  const Bytes need = tier == Tier::kDevice ? t.arena + machine.context_bytes : t.arena * ranks;
  Json holders = Json::array();
  for (const auto& holder : planner::holders_by_kind(plan, tier)) {
    holders.push_back({{"name", holder.name}, {"bytes", holder.bytes.count()}});
  }
  return {{"budget_bytes", budget ? Json(budget->count()) : Json(nullptr)},
          {"need_bytes", need.count()},
          {"phase", "training"},
          {"arena_bytes", t.arena.count()},
          {"lower_bound_bytes", t.lower_bound.count()},
          {"op_lower_bound_bytes", t.op_lower_bound.count()},
          {"holders", std::move(holders)}};
}

/// Keys of `strategy` in which a candidate differs from the choice.
Json change_json(const planner::Strategy& candidate, const planner::Strategy& chosen) {
  Json change = Json::object();
  const Json a = candidate.to_json();
  const Json b = chosen.to_json();
  for (const char* key : {"stage", "recompute", "micro_batch", "accumulation"}) {
    if (a[key] != b[key]) change[key] = a[key];
  }
  return change;
}

Json alternatives_json(const PlanChoice& choice) {
  Json list = Json::array();
  if (choice.fit.verdict == Verdict::kYes) return list;
  std::vector<planner::Candidate> sorted = choice.candidates;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.device_need < b.device_need; });
  constexpr std::size_t kMostListed = 5;
  for (const auto& c : sorted) {
    Json change = change_json(c.strategy, choice.plan.strategy);
    if (change.empty() || list.size() == kMostListed) continue;
    list.push_back({{"change", std::move(change)},
                    {"fits", planner::name_of(c.fit.verdict)},
                    {"limit", limit_json(c.fit)},
                    {"device_bytes", c.device_need.count()},
                    {"host_bytes", 0},
                    {"disk_bytes", 0},
                    {"step_s", c.step ? Json(c.step->value()) : Json(nullptr)},
                    {"why", fmt::format("needs {} on the device", format_size(c.device_need))}});
  }
  return list;
}

std::string_view verdict_in_words(planner::Verdict verdict) {
  switch (verdict) {
    case planner::Verdict::kYes:
      return "fits";
    case planner::Verdict::kTight:
      return "just fits";
    case planner::Verdict::kNo:
      break;
  }
  return "does not fit";
}

std::string tier_line(const PlanChoice& choice, Tier tier) {
  const planner::TierPlan& t = choice.plan.tier(tier);
  if (t.arena == Bytes()) return "";
  const double gap = 100 * (static_cast<double>(t.arena.count()) / static_cast<double>(t.lower_bound.count()) - 1);
  return fmt::format("  {:<8}{:>14}{:>14}{:>14}{:>9.2f}%{:>16}\n", planner::name_of(tier),
                     t.budget ? format_size(*t.budget) : "no limit", format_size(t.arena), format_size(t.lower_bound),
                     gap, format_size(t.op_lower_bound));
}

}  // namespace

Json limit_json(const planner::FitResult& fit) {
  return fit.limit ? Json(planner::name_of(*fit.limit)) : Json(nullptr);
}

Json tiers_json(const planner::Plan& plan) {
  Json tiers = Json::object();
  for (const Tier tier : kTiers) tiers[std::string(planner::name_of(tier))] = tier_json(plan, tier);
  return tiers;
}

Json strategy_json(const planner::TrainingSpec& training, const planner::Strategy& strategy) {
  Json document = strategy.to_json();
  document["precision"] = planner::name_of(training.precision);
  document["method"] = planner::name_of(training.method);
  document["quant"] =
      training.method == planner::Method::kQlora ? Json(planner::name_of(training.quant)) : Json(nullptr);
  document["seq"] = training.seq;
  document["optimizer"] = planner::name_of(training.optimizer);
  return document;
}

Json predicted_json(const planner::RunRecord& record) {
  return {{"step_s", record.step.value()},
          {"tokens_per_s", record.tokens_per_s},
          {"exposed_comm_s", record.exposed_comm.value()}};
}

Json plan_document(const PlanChoice& choice, Json params, Json states) {
  const planner::Plan& plan = choice.plan;
  return {{"model", {{"name", plan.model.name}, {"family", plan.model.family}, {"source", plan.model.source}}},
          {"params", std::move(params)},
          {"framework", planner::name_of(plan.training.framework)},
          {"gpus", plan.training.gpus},
          {"nodes", plan.training.nodes},
          {"states", std::move(states)},
          {"fits", planner::name_of(choice.fit.verdict)},
          {"limit", limit_json(choice.fit)},
          {"strategy", strategy_json(plan.training, plan.strategy)},
          {"tiers", tiers_json(plan)},
          {"predicted", predicted_json(choice.predicted)},
          {"alternatives", alternatives_json(choice)},
          {"why", choice.why},
          {"notes", plan.model.notes}};
}

std::string plan_text(const PlanChoice& choice) {
  const planner::Plan& plan = choice.plan;
  const planner::Strategy& s = plan.strategy;
  std::string text = fmt::format("{} {} on {} x {}\n\n", plan.model.name, verdict_in_words(choice.fit.verdict),
                                 plan.training.gpus, plan.machine.name);
  text += fmt::format("  ZeRO stage {}, recompute {}, micro-batch {} x accumulation {} x {} ranks, {} tokens, {}\n",
                      s.stage, planner::name_of(s.recompute), s.micro_batch, s.accumulation, plan.training.gpus,
                      plan.training.seq, planner::name_of(plan.training.precision));
  text += fmt::format("  predicted: {} a step, {:.0f} tokens/s, {} of communication not hidden\n\n",
                      format_duration(choice.predicted.step), choice.predicted.tokens_per_s,
                      format_duration(choice.predicted.exposed_comm));
  text += fmt::format("  {:<8}{:>14}{:>14}{:>14}{:>10}{:>16}\n", "tier", "budget", "planned", "lower bound", "gap",
                      "op-level bound");
  for (const Tier tier : kTiers) text += tier_line(choice, tier);
  text += "\n  largest holders of the device arena\n";
  std::size_t shown = 0;
  for (const auto& holder : planner::holders_by_kind(plan, Tier::kDevice)) {
    if (shown++ == 6) break;
    text += fmt::format("    {:<28}{:>14}\n", holder.name, format_size(holder.bytes));
  }
  text += "\n  why\n";
  for (const std::string& reason : choice.why) text += fmt::format("    - {}\n", reason);
  for (const std::string& note : plan.model.notes) text += fmt::format("    note: {}\n", note);
  return text;
}

}  // namespace zeroplan::reports
