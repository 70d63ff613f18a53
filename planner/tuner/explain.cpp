#include "planner/tuner/explain.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::planner {
namespace {

/// A part of the step from which on a resource is said to bind.
constexpr double kMostOfTheStep = 0.5;
constexpr std::size_t kHoldersNamed = 3;

double part_of(Seconds time, Seconds step) {
  return step.value() > 0 ? time / step : 0;
}

std::string percent(double part) {
  return fmt::format("{:.1f} %", 100 * part);
}

std::string outline_name(const Strategy& s) {
  const std::string recompute = s.recompute == Recompute::kFull
                                    ? fmt::format("full recompute of {} blocks", s.recompute_blocks)
                                : s.recompute == Recompute::kSelective ? std::string("selective recompute")
                                                                       : std::string("no recompute");
  return fmt::format("stage {}, micro-batch {} x {}, {}, head in {}", s.stage, s.micro_batch, s.accumulation, recompute,
                     s.head_chunks == 1 ? std::string("one piece") : fmt::format("{} pieces", s.head_chunks));
}

void explain_memory(RankedPlan& ranked) {
  const Plan& plan = ranked.plan;
  const TierPlan& device = plan.tier(Tier::kDevice);
  std::string holders;
  const auto kinds = holders_by_kind(plan, Tier::kDevice);
  for (std::size_t i = 0; i < kinds.size() && i < kHoldersNamed; ++i) {
    holders += fmt::format("{}{} {}", i == 0 ? "" : ", ", kinds[i].name, format_size(kinds[i].bytes));
  }
  const Bytes need = device.arena + plan.machine.context_bytes;
  const std::string of = plan.machine.device_bytes ? format_size(*plan.machine.device_bytes) : std::string("no limit");
  ranked.why.push_back(fmt::format("device memory: {} of {}; largest: {}", format_size(need), of, holders));
}

void explain_time(RankedPlan& ranked) {
  const RunRecord& r = ranked.predicted;
  ranked.why.push_back(
      fmt::format("{} binds: arithmetic and update fill {} of the step, gathers {}, reductions {}; {} of communication "
                  "is not hidden",
                  name_of(ranked.binds), percent(part_of(r.lane(Lane::kCompute).busy, r.step)),
                  percent(part_of(r.lane(Lane::kGather).busy, r.step)),
                  percent(part_of(r.lane(Lane::kReduce).busy, r.step)), format_duration(r.exposed_comm)));
}

void explain_sizes(RankedPlan& ranked, const FixedDecisions& fixed) {
  const Strategy& s = ranked.plan.strategy;
  if (!fixed.reduce_bucket_size && ranked.plan.training.gpus > 1) {
    ranked.why.push_back(
        fmt::format("reduce buckets of {} elements: of the sizes tried, none hides more of the reductions",
                    format_count(s.reduce_bucket_size)));
  }
  if (s.stage == 3 && !fixed.prefetch_bucket_size) {
    ranked.why.push_back(fmt::format("gathers up to {} elements ahead of the arithmetic, {} elements gathered at most",
                                     format_count(s.prefetch_bucket_size), format_count(s.max_live_parameters)));
  }
  if (s.stage == 3 && !fixed.param_persistence_threshold) {
    ranked.why.push_back(
        fmt::format("parameters of at most {} elements stay gathered", format_count(s.param_persistence_threshold)));
  }
}

void explain_rank(TuneResult& result, std::size_t rank) {
  RankedPlan& ranked = result.ranked[rank];
  if (rank > 0) {
    const RankedPlan& first = result.ranked.front();
    const double slower = 1 - ranked.predicted.tokens_per_s / first.predicted.tokens_per_s;
    ranked.why.push_back(fmt::format("{} tokens/s less than rank 1", percent(slower)));
    return;
  }
  for (const RejectedStrategy& lost : result.rejected) {
    if (!lost.limit) ranked.why.push_back(fmt::format("the best plan of {}", lost.reason));
  }
  for (const WhatIf& change : result.what_if) {
    if (!change.strategy) continue;
    ranked.why.push_back(fmt::format("with {}: {:.0f} tokens/s ({:+.1f} %) with {}", change.change, change.tokens_per_s,
                                     100 * (change.tokens_per_s / ranked.predicted.tokens_per_s - 1),
                                     outline_name(*change.strategy)));
  }
}

}  // namespace

Binding binding_of(const RunRecord& record) {
  const double compute = part_of(record.lane(Lane::kCompute).busy, record.step);
  const double link = std::max(part_of(record.lane(Lane::kGather).busy, record.step),
                               part_of(record.lane(Lane::kReduce).busy, record.step));
  if (std::max(compute, link) < kMostOfTheStep) return Binding::kLatency;
  return compute >= link ? Binding::kCompute : Binding::kLink;
}

void explain(TuneResult& result, std::size_t rank, const TrainingSpec& training, const FixedDecisions& fixed) {
  static_cast<void>(training);
  RankedPlan& ranked = result.ranked[rank];
  explain_memory(ranked);
  explain_time(ranked);
  explain_sizes(ranked, fixed);
  explain_rank(result, rank);
}

std::vector<RejectedStrategy> rejected_strategies(const GridSearch& search, const DecisionGrid& grid,
                                                  const Machine& machine, std::span<const std::size_t> ranked,
                                                  std::span<const std::size_t> best_of_stage, std::size_t most) {
  std::vector<RejectedStrategy> slower;
  for (const std::size_t o : best_of_stage) {
    if (ranked.empty() || o == ranked.front()) continue;
    const FoundPlan& lost = *search.states()[o].best;
    const FoundPlan& first = *search.states()[ranked.front()].best;
    if (lost.plan.strategy.stage == first.plan.strategy.stage) continue;
    const std::string speed =
        lost.key.time_step == first.key.time_step
            ? fmt::format("is as fast, {:.0f} tokens/s, and comes later in the order of preference",
                          lost.tokens_per_s())
            : fmt::format("makes {:.0f} tokens/s instead of {:.0f}", lost.tokens_per_s(), first.tokens_per_s());
    slower.push_back(
        {lost.plan.strategy, std::nullopt, lost.plan.tier(Tier::kDevice).arena + machine.context_bytes, false,
         fmt::format("stage {} {} ({})", lost.plan.strategy.stage, speed, outline_name(lost.plan.strategy))});
  }
  std::vector<RejectedStrategy> too_large;
  for (std::size_t o = 0; o < grid.outlines().size(); ++o) {
    const OutlineState& state = search.states()[o];
    if (!state.is_searched || state.best || !state.limit) continue;
    const Bytes need = state.least_need;
    const std::string budget = machine.device_bytes ? format_size(*machine.device_bytes) : std::string("no limit");
    too_large.push_back({grid.outlines()[o], state.limit, need, state.least_need_is_bound,
                         fmt::format("needs {}{} of {} ({})", state.least_need_is_bound ? "at least " : "",
                                     format_size(need), budget, outline_name(grid.outlines()[o]))});
  }
  std::stable_sort(too_large.begin(), too_large.end(),
                   [](const auto& a, const auto& b) { return a.device_need < b.device_need; });
  for (RejectedStrategy& each : too_large) {
    if (slower.size() < most) slower.push_back(std::move(each));
  }
  return slower;
}

}  // namespace zeroplan::planner
