#include "reports/framework_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"
#include "models/parameter_summary.h"
#include "reports/estimate_report.h"
#include "reports/plan_report.h"

namespace zeroplan::reports {
namespace {

using planner::Verdict;
using simulator::FrameworkAlternative;
using simulator::FrameworkPlan;
using simulator::FrameworkRun;
using simulator::FrameworkSearch;

constexpr std::size_t kRejectedListed = 20;
constexpr std::size_t kHoldersNamed = 3;

/// Holders of the peak; where there is none, the states of the tier.
Json holders_json(const FrameworkPlan& plan, simulator::Tier tier) {
  Json holders = Json::array();
  if (tier == simulator::Tier::kDevice && plan.peak) {
    for (const simulator::Holder& h : plan.peak->holders) holders.push_back({{"name", h.name}, {"bytes", h.bytes}});
    return holders;
  }
  for (const simulator::StatePart& p : plan.states.parts) {
    if (p.tier == tier) holders.push_back({{"name", p.name}, {"bytes", p.bytes.count()}});
  }
  return holders;
}

Json tiers_of(const FrameworkRun& run, const FrameworkPlan& plan) {
  const auto tier = [&](Bytes need, const std::optional<Bytes>& budget, simulator::Tier which) {
    const bool has_phase = which == simulator::Tier::kDevice && plan.peak;
    return Json{{"budget_bytes", budget ? Json(budget->count()) : Json(nullptr)},
                {"need_bytes", need.count()},
                {"phase", has_phase ? Json(simulator::to_string(plan.peak->phase)) : Json(nullptr)},
                {"arena_bytes", nullptr},
                {"lower_bound_bytes", nullptr},
                {"holders", holders_json(plan, which)}};
  };
  return {{"device", tier(plan.device, run.machine.device_bytes, simulator::Tier::kDevice)},
          {"host", tier(plan.host, run.machine.host_bytes, simulator::Tier::kHost)},
          {"disk", tier(plan.disk, run.machine.disk_bytes, simulator::Tier::kDisk)}};
}

Json predicted_of(const FrameworkPlan& plan) {
  if (!plan.step) return {{"step_s", nullptr}, {"tokens_per_s", nullptr}, {"exposed_comm_s", nullptr}};
  return {{"step_s", plan.step->step_s},
          {"tokens_per_s", plan.step->tokens_per_s},
          {"exposed_comm_s", plan.step->exposed_comm_s}};
}

Json params_of(const FrameworkRun& run, const FrameworkPlan& plan) {
  const models::ParameterSummary s = models::summarise(run.model);
  const auto trained = simulator::trained_parameters(run.model, plan.training);
  return {{"total", s.total.count()},
          {"trainable", trained.trainable(run.model).count()},
          {"with_tied_twice", s.with_tied_twice.count()},
          {"active", s.active.count()},
          {"largest_module", s.largest_module.count()},
          {"largest_module_name", s.largest_module_name},
          {"tensor_count", s.tensor_count}};
}

Json alternatives_of(const FrameworkPlan& plan, const std::vector<FrameworkAlternative>& alternatives) {
  Json list = Json::array();
  if (plan.fit.verdict == Verdict::kYes) return list;
  for (const FrameworkAlternative& a : alternatives) {
    list.push_back({{"change", a.change},
                    {"fits", planner::name_of(a.plan.fit.verdict)},
                    {"limit", limit_json(a.plan.fit)},
                    {"device_bytes", a.plan.device.count()},
                    {"host_bytes", a.plan.host.count()},
                    {"disk_bytes", a.plan.disk.count()},
                    {"step_s", a.plan.step ? Json(a.plan.step->step_s) : Json(nullptr)},
                    {"why", a.why}});
  }
  return list;
}

std::string largest_holders(const FrameworkPlan& plan) {
  std::string text;
  const auto add = [&](std::string_view name, Bytes bytes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, format_size(bytes));
  };
  std::size_t named = 0;
  if (plan.peak) {
    for (const simulator::Holder& h : plan.peak->holders) {
      if (named++ < kHoldersNamed) add(h.name, Bytes(h.bytes));
    }
    return text;
  }
  for (const simulator::StatePart& p : plan.states.parts) {
    if (p.tier == simulator::Tier::kDevice && named++ < kHoldersNamed) add(p.name, p.bytes);
  }
  return text;
}

std::string need_sentence(std::string_view tier, Bytes need, const std::optional<Bytes>& budget) {
  if (!budget) return fmt::format("{} memory: {} needed, no limit given", tier, format_size(need));
  if (need > *budget) {
    return fmt::format("{} memory is short by {}: {} needed, {} there", tier, format_size(need - *budget),
                       format_size(need), format_size(*budget));
  }
  return fmt::format("{} memory: {} of {} needed", tier, format_size(need), format_size(*budget));
}

std::string why_tight(const FrameworkPlan& plan) {
  const planner::Tier tier = plan.fit.limit.value_or(planner::Tier::kDevice);
  return fmt::format("tight: less than {:.0f} % of the {} is left, which is about the prediction's own error",
                     100 * simulator::kFrameworkTightFraction, planner::name_of(tier));
}

std::vector<std::string> why_of(const FrameworkRun& run, const FrameworkPlan& plan) {
  std::vector<std::string> why;
  const std::string device =
      need_sentence("device", plan.device, run.machine.device_bytes) + "; largest: " + largest_holders(plan);
  const std::string host = need_sentence("host", plan.host, run.machine.host_bytes);
  const bool host_first = plan.fit.limit == planner::Tier::kHost;
  why.push_back(host_first ? host : device);
  if (host_first || plan.host > Bytes()) why.push_back(host_first ? device : host);
  if (plan.host > plan.states.on(simulator::Tier::kHost)) {
    why.push_back(
        fmt::format("of the host memory {} are states; the rest is staging of gradients and weights, and pinned "
                    "buffers that are rounded up to powers of two",
                    format_size(plan.states.on(simulator::Tier::kHost))));
  }
  if (plan.disk > Bytes()) why.push_back(need_sentence("disk", plan.disk, run.machine.disk_bytes));
  if (plan.strategy.stage > 0 && run.training.gpus == 1) {
    why.push_back(fmt::format("stage {} divides states by the number of ranks, which is 1: it saves nothing here",
                              plan.strategy.stage));
  }
  if (plan.fit.verdict == Verdict::kTight) why.push_back(why_tight(plan));
  if (plan.step) {
    const simulator::StepEstimate& e = *plan.step;
    why.push_back(fmt::format(
        "a step takes about {}: arithmetic {}, update {}, transfers to host or disk {}, communication not hidden {}",
        format_duration(Seconds(e.step_s)), format_duration(Seconds(e.arithmetic_s)),
        format_duration(Seconds(e.update_s)), format_duration(Seconds(e.transfers_s)),
        format_duration(Seconds(e.exposed_comm_s))));
  }
  return why;
}

std::vector<std::string> notes_of(const FrameworkRun& run, const FrameworkPlan& plan) {
  std::vector<std::string> notes = run.model.notes;
  if (!plan.peak)
    notes.emplace_back(
        "how the blocks of this family compute is not known: needs are model states alone, without activations");
  if (plan.step) {
    notes.emplace_back(
        "times of other frameworks are sums of resources with everything hidden that can be: a bound, no measurement");
  } else {
    notes.emplace_back("the machine states no rates, so no times are predicted");
  }
  return notes;
}

Json model_json(const FrameworkRun& run) {
  return {{"name", run.model.name}, {"family", run.model.family}, {"source", run.model.source}};
}

std::string reason_of(const FrameworkRun& run, const FrameworkPlan& plan) {
  std::string reason = "needs " + format_size(plan.device) + " on the device";
  if (plan.fit.limit == planner::Tier::kHost) reason = "needs " + format_size(plan.host) + " on the host";
  if (plan.fit.limit == planner::Tier::kDisk) reason = "needs " + format_size(plan.disk) + " on the disk";
  static_cast<void>(run);
  return reason + " (" + simulator::strategy_name(plan.strategy) + ")";
}

}  // namespace

Json framework_plan_document(const FrameworkRun& run, const FrameworkPlan& plan,
                             const std::vector<FrameworkAlternative>& alternatives) {
  return {{"model", model_json(run)},
          {"params", params_of(run, plan)},
          {"framework", planner::name_of(run.training.framework)},
          {"gpus", run.training.gpus},
          {"nodes", run.training.nodes},
          {"states", Json::array({states_json(run.training.framework, {plan.strategy, plan.states})})},
          {"fits", planner::name_of(plan.fit.verdict)},
          {"limit", limit_json(plan.fit)},
          {"strategy", strategy_json(run.training, plan.strategy)},
          {"tiers", tiers_of(run, plan)},
          {"predicted", predicted_of(plan)},
          {"alternatives", alternatives_of(plan, alternatives)},
          {"why", why_of(run, plan)},
          {"notes", notes_of(run, plan)}};
}

std::string framework_plan_text(const FrameworkRun& run, const FrameworkPlan& plan,
                                const std::vector<FrameworkAlternative>& alternatives) {
  std::string text = fmt::format("{} in {}: fits {} on {} x {}\n\n  {}\n\n  why\n", run.model.name,
                                 planner::name_of(run.training.framework), planner::name_of(plan.fit.verdict),
                                 run.training.gpus, run.machine.name, simulator::strategy_name(plan.strategy));
  for (const std::string& reason : why_of(run, plan)) text += fmt::format("    - {}\n", reason);
  if (plan.fit.verdict != Verdict::kYes && !alternatives.empty()) {
    text += "\n  what to change\n";
    for (const FrameworkAlternative& a : alternatives) {
      text += fmt::format("    {:<5} {}: {}\n", planner::name_of(a.plan.fit.verdict), a.change.dump(), a.why);
    }
  }
  for (const std::string& note : notes_of(run, plan)) text += fmt::format("  note: {}\n", note);
  return text;
}

Json framework_tune_document(const FrameworkRun& run, const FrameworkSearch& search, std::size_t top,
                             double elapsed_s) {
  Json ranked = Json::array();
  for (const FrameworkPlan& plan : search.ranked) {
    if (ranked.size() == top) break;
    ranked.push_back({{"rank", ranked.size() + 1},
                      {"fits", planner::name_of(plan.fit.verdict)},
                      {"strategy", strategy_json(run.training, plan.strategy)},
                      {"tiers", tiers_of(run, plan)},
                      {"predicted", predicted_of(plan)},
                      {"why", why_of(run, plan)}});
  }
  Json rejected = Json::array();
  for (const FrameworkPlan& plan : search.rejected) {
    if (rejected.size() == kRejectedListed) break;
    rejected.push_back({{"strategy", strategy_json(run.training, plan.strategy)},
                        {"limit", limit_json(plan.fit)},
                        {"device_bytes", plan.device.count()},
                        {"reason", reason_of(run, plan)}});
  }
  const FrameworkPlan& any = search.ranked.empty() ? search.rejected.front() : search.ranked.front();
  return {{"model", model_json(run)},
          {"framework", planner::name_of(run.training.framework)},
          {"gpus", run.training.gpus},
          {"nodes", run.training.nodes},
          {"candidates_considered", search.considered},
          {"elapsed_ms", elapsed_s * 1e3},
          {"ranked", std::move(ranked)},
          {"rejected", std::move(rejected)},
          {"notes", notes_of(run, any)}};
}

std::string framework_tune_text(const FrameworkRun& run, const FrameworkSearch& search, std::size_t top) {
  std::string text = fmt::format("{} in {} on {} x {}: {}\n", run.model.name, planner::name_of(run.training.framework),
                                 run.training.gpus, run.machine.name,
                                 search.ranked.empty() ? "nothing fits" : "predicted by its memory profile");
  std::size_t rank = 0;
  for (const FrameworkPlan& plan : search.ranked) {
    if (rank == top) break;
    text += fmt::format("  {:>3}  {:<66} {:>11}{} {}  {}\n", ++rank, simulator::strategy_name(plan.strategy),
                        format_size(plan.device), plan.host > Bytes() ? " + host " + format_size(plan.host) : "",
                        plan.step ? fmt::format("{:>8.0f} tokens/s", plan.step->tokens_per_s) : "",
                        planner::name_of(plan.fit.verdict));
  }
  if (!search.ranked.empty()) {
    text += "\n  why rank 1\n";
    for (const std::string& reason : why_of(run, search.ranked.front())) text += fmt::format("    - {}\n", reason);
  }
  std::size_t shown = 0;
  for (const FrameworkPlan& plan : search.rejected) {
    if (shown == kHoldersNamed) break;
    text += fmt::format("{}    - {}\n", shown++ == 0 ? "\n  what does not fit\n" : "", reason_of(run, plan));
  }
  text += fmt::format("\n  search: {} strategies predicted, {} larger micro-batches of what does not fit left out\n",
                      search.considered, search.left_out);
  const FrameworkPlan& any = search.ranked.empty() ? search.rejected.front() : search.ranked.front();
  for (const std::string& note : notes_of(run, any)) text += fmt::format("  note: {}\n", note);
  return text;
}

std::vector<std::string> framework_predictions(const FrameworkPlan& plan) {
  std::vector<std::string> lines = {fmt::format(
      "predicted for {}: {} on each GPU{}{}", planner::name_of(plan.training.framework), format_size(plan.device),
      plan.host > Bytes() ? ", " + format_size(plan.host) + " of host memory a node" : "",
      plan.peak ? "" : " (model states alone)")};
  if (plan.step) {
    lines.push_back(fmt::format("at best {} a step, {:.0f} tokens/s (sums of resources, not measured)",
                                format_duration(Seconds(plan.step->step_s)), plan.step->tokens_per_s));
  }
  return lines;
}

}  // namespace zeroplan::reports
