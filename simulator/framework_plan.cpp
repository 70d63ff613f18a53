#include "simulator/framework_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"
#include "simulator/deepspeed_host.h"

namespace zeroplan::simulator {
namespace {

using planner::FitResult;
using planner::Framework;
using planner::Offload;
using planner::OffloadPlace;
using planner::Strategy;
using planner::Verdict;

constexpr std::size_t kMostAlternatives = 12;
constexpr std::size_t kMostClosest = 5;

FitResult judge(const planner::Machine& machine, const FrameworkPlan& plan) {
  FitResult result;
  double least_left = kFrameworkTightFraction;
  const auto consider = [&](planner::Tier tier, Bytes need, const std::optional<Bytes>& budget) {
    if (!budget || result.verdict == Verdict::kNo) return;
    if (need > *budget) {
      result = {Verdict::kNo, tier};
      return;
    }
    const double left =
        budget->count() == 0 ? 1 : 1 - static_cast<double>(need.count()) / static_cast<double>(budget->count());
    if (left >= least_left) return;
    least_left = left;
    result = {Verdict::kTight, tier};
  };
  consider(planner::Tier::kDevice, plan.device, machine.device_bytes);
  consider(planner::Tier::kHost, plan.host, machine.host_bytes);
  consider(planner::Tier::kDisk, plan.disk, machine.disk_bytes);
  // Without activations nothing is sure to fit.
  if (!plan.peak && result.verdict == Verdict::kYes && machine.device_bytes)
    result = {Verdict::kTight, planner::Tier::kDevice};
  return result;
}

/// How far over the budgets a plan is, as a factor; 1 or less: it fits.
double excess(const planner::Machine& machine, const FrameworkPlan& plan) {
  double most = 0;
  const auto consider = [&](Bytes need, const std::optional<Bytes>& budget) {
    if (budget && budget->count() > 0)
      most = std::max(most, static_cast<double>(need.count()) / static_cast<double>(budget->count()));
  };
  consider(plan.device, machine.device_bytes);
  consider(plan.host, machine.host_bytes);
  consider(plan.disk, machine.disk_bytes);
  return most;
}

/// A change of a run, to be tried.
struct TriedChange {
  FrameworkRun run;
  Strategy strategy;
};

Json difference(const FrameworkRun& before, const Strategy& old, const FrameworkRun& after, const Strategy& changed) {
  Json change = Json::object();
  if (after.training.gpus != before.training.gpus) change["gpus"] = after.training.gpus;
  if (after.training.method != before.training.method) change["method"] = planner::name_of(after.training.method);
  if (after.training.precision != before.training.precision)
    change["precision"] = planner::name_of(after.training.precision);
  const Json a = old.to_json();
  const Json b = changed.to_json();
  for (const char* key : {"stage", "offload_optimizer", "offload_param", "recompute", "micro_batch", "accumulation"}) {
    if (a[key] != b[key]) change[key] = b[key];
  }
  return change;
}

std::vector<TriedChange> changes_to_try(const FrameworkRun& run, const Strategy& s) {
  std::vector<TriedChange> changes;
  const auto with = [&](auto&& edit) {
    TriedChange change{run, s};
    edit(change.run, change.strategy);
    changes.push_back(std::move(change));
  };
  const Framework framework = run.training.framework;
  if (framework == Framework::kDeepspeed) {
    for (std::uint64_t stage = s.stage + 1; stage <= 3; ++stage) {
      with([&](FrameworkRun&, Strategy& c) { c.stage = stage; });
    }
    for (const OffloadPlace place : {OffloadPlace::kCpu, OffloadPlace::kNvme}) {
      // DeepSpeed's disk needs stage 3; its host takes the optimizer from stage 1 on.
      const std::uint64_t least = place == OffloadPlace::kNvme ? 3 : 2;
      with([&](FrameworkRun&, Strategy& c) {
        c.stage = std::max(c.stage, least);
        c.offload_optimizer = c.offload_gradients = {place, 1};
      });
      with([&](FrameworkRun&, Strategy& c) {
        c.stage = 3;
        c.offload_param = {place, 1};
      });
      with([&](FrameworkRun&, Strategy& c) {
        c.stage = 3;
        c.offload_optimizer = c.offload_gradients = c.offload_param = {place, 1};
      });
    }
  } else if (framework == Framework::kFsdp2) {
    with([&](FrameworkRun&, Strategy& c) { c.offload_param = {OffloadPlace::kCpu, 1}; });
  }
  with([&](FrameworkRun&, Strategy& c) { c.recompute = planner::Recompute::kFull; });
  with([&](FrameworkRun&, Strategy& c) {
    c.accumulation *= c.micro_batch;
    c.micro_batch = 1;
  });
  with([&](FrameworkRun& r, Strategy&) { r.training.precision = planner::Precision::kBf16; });
  for (const std::uint64_t factor : {2, 4}) {
    if (framework == Framework::kPytorch) break;
    with([&](FrameworkRun& r, Strategy&) { r.machine.gpus = r.training.gpus = run.training.gpus * factor; });
  }
  for (const planner::Method method : {planner::Method::kLora, planner::Method::kQlora}) {
    if (method > run.training.method) with([&](FrameworkRun& r, Strategy&) { r.training.method = method; });
  }
  return changes;
}

std::string why_of(const planner::Machine& machine, const FrameworkPlan& plan) {
  const auto part = [](std::string_view tier, Bytes need, const std::optional<Bytes>& budget) {
    return budget ? fmt::format("{} {} of {}", tier, format_size(need), format_size(*budget))
                  : fmt::format("{} {}", tier, format_size(need));
  };
  std::string why = "needs " + part("device", plan.device, machine.device_bytes);
  if (plan.host > Bytes()) why += ", " + part("host", plan.host, machine.host_bytes);
  if (plan.disk > Bytes()) why += ", " + part("disk", plan.disk, machine.disk_bytes);
  return why + (plan.peak ? "" : " (states alone)");
}

}  // namespace

FrameworkPlan plan_framework(const FrameworkRun& run, const Strategy& strategy) {
  FrameworkPlan plan;
  plan.training = run.training;
  plan.strategy = strategy;
  const TrainedParameters trained = trained_parameters(run.model, run.training);
  plan.states = model_states(run.model, trained, run.training, strategy);
  plan.device = plan.states.on(Tier::kDevice) + run.machine.context_bytes;
  plan.host = plan.states.on(Tier::kHost);
  plan.disk = plan.states.on(Tier::kDisk);
  try {
    plan.peak = predict_peak({run.model, trained, run.training, strategy, &run.machine, {}});
    plan.device = Bytes(plan.peak->process_bytes());
    plan.host = std::max(plan.host, Bytes(plan.peak->host_bytes));
    plan.disk = std::max(plan.disk, Bytes(plan.peak->disk_bytes));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
  }
  if (run.training.framework == Framework::kDeepspeed) {
    plan.host = std::max(plan.host, deepspeed_host_bytes(run.model, trained, run.training, strategy));
  }
  plan.fit = judge(run.machine, plan);
  plan.step = estimate_step(run.model, trained, run.machine, run.training, strategy);
  return plan;
}

std::vector<FrameworkAlternative> framework_alternatives(const FrameworkRun& run, const FrameworkPlan& plan) {
  std::vector<FrameworkAlternative> fitting;
  std::vector<std::pair<double, FrameworkAlternative>> others;
  for (const TriedChange& change : changes_to_try(run, plan.strategy)) {
    FrameworkAlternative alternative;
    alternative.change = difference(run, plan.strategy, change.run, change.strategy);
    if (alternative.change.empty()) continue;
    try {
      change.run.training.validate();
      alternative.plan = plan_framework(change.run, change.strategy);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      continue;  // this framework, precision or model does not have it
    }
    alternative.why = why_of(run.machine, alternative.plan);
    if (alternative.plan.fit.verdict == Verdict::kNo) {
      others.emplace_back(excess(run.machine, alternative.plan), std::move(alternative));
    } else {
      fitting.push_back(std::move(alternative));
    }
  }
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const auto& a, const auto& b) { return a.change.size() < b.change.size(); });
  if (fitting.size() > kMostAlternatives) fitting.resize(kMostAlternatives);
  if (!fitting.empty()) return fitting;
  std::stable_sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [_, alternative] : others) {
    if (fitting.size() < kMostClosest) fitting.push_back(std::move(alternative));
  }
  return fitting;
}

std::string strategy_name(const Strategy& s) {
  std::string name = fmt::format("stage {}", s.stage);
  if (s.offload_optimizer.any()) name += fmt::format(", optimizer on {}", to_string(s.offload_optimizer));
  if (s.offload_param.any()) name += fmt::format(", parameters on {}", to_string(s.offload_param));
  name +=
      fmt::format(", {} recompute", s.recompute == planner::Recompute::kNone ? "no" : planner::name_of(s.recompute));
  return name + fmt::format(", micro-batch {} x {}", s.micro_batch, s.accumulation);
}

}  // namespace zeroplan::simulator
