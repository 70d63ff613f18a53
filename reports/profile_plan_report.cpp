#include "reports/profile_plan_report.h"

#include <fmt/format.h>

#include "models/core/text.h"
#include "reports/plan_report.h"

namespace zeroplan::reports {
namespace {

using simulator::ProfileChoice;
using simulator::ProfileNeed;

Json limit_json(const planner::FitResult& fit) {
  return fit.limit ? Json(planner::name_of(*fit.limit)) : Json(nullptr);
}

Json holders_json(const ProfileNeed& need, simulator::Tier tier) {
  Json holders = Json::array();
  if (tier == simulator::Tier::kDevice && need.peak) {
    for (const simulator::Holder& h : need.peak->holders) holders.push_back({{"name", h.name}, {"bytes", h.bytes}});
    return holders;
  }
  for (const simulator::StatePart& p : need.states.parts) {
    if (p.tier == tier) holders.push_back({{"name", p.name}, {"bytes", p.bytes.count()}});
  }
  return holders;
}

Json tier_json(const ProfileNeed& need, simulator::Tier tier, Bytes bytes, const std::optional<Bytes>& budget) {
  const bool device = tier == simulator::Tier::kDevice && need.peak;
  return {{"budget_bytes", budget ? Json(budget->count()) : Json(nullptr)},
          {"need_bytes", bytes.count()},
          {"phase", device ? Json(simulator::to_string(need.peak->phase)) : Json(nullptr)},
          {"arena_bytes", nullptr},
          {"lower_bound_bytes", nullptr},
          {"holders", holders_json(need, tier)}};
}

Json states_json(const ProfileChoice& choice) {
  Json parts = Json::array();
  for (const simulator::StatePart& p : choice.need.states.parts) {
    parts.push_back({{"name", p.name}, {"tier", simulator::to_string(p.tier)}, {"bytes", p.bytes.count()}});
  }
  return Json::array({{{"framework", planner::name_of(choice.spec.framework)},
                       {"stage", choice.strategy.stage},
                       {"offload_optimizer", planner::to_string(choice.strategy.offload_optimizer)},
                       {"offload_param", planner::to_string(choice.strategy.offload_param)},
                       {"gpu_bytes", choice.need.states.on(simulator::Tier::kDevice).count()},
                       {"cpu_bytes", choice.need.states.on(simulator::Tier::kHost).count()},
                       {"nvme_bytes", choice.need.states.on(simulator::Tier::kDisk).count()},
                       {"parts", std::move(parts)}}});
}

Json alternatives_json(const ProfileChoice& choice) {
  Json list = Json::array();
  for (const simulator::ProfileAlternative& a : choice.alternatives) {
    list.push_back({{"change", a.change},
                    {"fits", planner::name_of(a.need.fit.verdict)},
                    {"limit", limit_json(a.need.fit)},
                    {"device_bytes", a.need.device.count()},
                    {"host_bytes", a.need.host.count()},
                    {"disk_bytes", a.need.disk.count()},
                    {"step_s", nullptr},
                    {"why", fmt::format("needs {} a GPU and {} of host memory a node", format_size(a.need.device),
                                        format_size(a.need.host))}});
  }
  return list;
}

/// Broken at spaces so that lines end before column 100; further lines are indented.
std::string wrapped(const std::string& words, std::size_t indent) {
  constexpr std::size_t kWidth = 100;
  std::string text;
  std::size_t column = indent;
  for (const std::string& word : split(words, ' ')) {
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > kWidth) {
      text += "\n" + std::string(indent, ' ') + word;
      column = indent + word.size();
      continue;
    }
    text += (first ? "" : " ") + word;
    column += word.size() + (first ? 0 : 1);
  }
  return text + "\n";
}

std::string change_in_words(const Json& change) {
  std::string text;
  for (const auto& [key, value] : change.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

Json profile_plan_document(const models::Model& model, const planner::Machine& machine, const ProfileChoice& choice,
                           Json params) {
  const ProfileNeed& need = choice.need;
  std::vector<std::string> notes = model.notes;
  notes.emplace_back("steps of other frameworks are not timed");
  return {{"model", {{"name", model.name}, {"family", model.family}, {"source", model.source}}},
          {"params", std::move(params)},
          {"framework", planner::name_of(choice.spec.framework)},
          {"gpus", choice.spec.gpus},
          {"nodes", choice.spec.nodes},
          {"states", states_json(choice)},
          {"fits", planner::name_of(need.fit.verdict)},
          {"limit", limit_json(need.fit)},
          {"strategy", strategy_json(choice.spec, choice.strategy)},
          {"tiers",
           {{"device", tier_json(need, simulator::Tier::kDevice, need.device, machine.device_bytes)},
            {"host", tier_json(need, simulator::Tier::kHost, need.host, machine.host_bytes)},
            {"disk", tier_json(need, simulator::Tier::kDisk, need.disk, machine.disk_bytes)}}},
          {"predicted", {{"step_s", nullptr}, {"tokens_per_s", nullptr}, {"exposed_comm_s", nullptr}}},
          {"alternatives", alternatives_json(choice)},
          {"why", choice.why},
          {"notes", notes}};
}

std::string profile_plan_text(const models::Model& model, const planner::Machine& machine,
                              const ProfileChoice& choice) {
  const ProfileNeed& need = choice.need;
  const planner::Strategy& s = choice.strategy;
  const char* verdict = need.fit.verdict == planner::Verdict::kYes     ? "fits"
                        : need.fit.verdict == planner::Verdict::kTight ? "just fits"
                                                                       : "does not fit";
  std::string text = fmt::format("{} {} on {} x {} with {}\n\n", model.name, verdict, choice.spec.gpus, machine.name,
                                 planner::name_of(choice.spec.framework));
  text += fmt::format("  stage {}, recompute {}, micro-batch {}, {} tokens, {}, optimizer {}, weights {}\n", s.stage,
                      planner::name_of(s.recompute), s.micro_batch, choice.spec.seq,
                      planner::name_of(choice.spec.precision), planner::to_string(s.offload_optimizer),
                      planner::to_string(s.offload_param));
  text += "\n  why\n";
  for (const std::string& reason : choice.why) text += "    - " + wrapped(reason, 6);
  if (!choice.alternatives.empty()) text += "\n  alternatives\n";
  for (const simulator::ProfileAlternative& a : choice.alternatives) {
    text += fmt::format("    {:<44}{:>12} a GPU{:>12} host  {}\n", change_in_words(a.change),
                        format_size(a.need.device), format_size(a.need.host), planner::name_of(a.need.fit.verdict));
  }
  return text;
}

}  // namespace zeroplan::reports
