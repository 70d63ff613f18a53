#include "planner/tuner/tuner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/tuner/explain.h"
#include "planner/tuner/grid_search.h"

namespace zeroplan::planner {
namespace {

constexpr std::size_t kMostRejected = 20;
constexpr Bytes kMoreMemory{std::uint64_t{8} << 30};
constexpr double kTimeStep = 1e-3;

std::vector<std::size_t> outlines_of_stage(const DecisionGrid& grid, std::optional<std::uint64_t> stage) {
  std::vector<std::size_t> outlines;
  for (std::size_t o = 0; o < grid.outlines().size(); ++o) {
    if (!stage || grid.outlines()[o].stage == *stage) outlines.push_back(o);
  }
  return outlines;
}

/// By key: the best plans of these outlines.
std::vector<std::size_t> ranked_outlines(const GridSearch& search, const std::vector<std::size_t>& outlines,
                                         std::size_t top) {
  std::vector<std::size_t> found;
  for (const std::size_t o : outlines) {
    if (search.states()[o].best) found.push_back(o);
  }
  std::sort(found.begin(), found.end(),
            [&](auto a, auto b) { return search.states()[a].best->key < search.states()[b].best->key; });
  if (found.size() > top) found.resize(top);
  return found;
}

std::vector<ParetoPoint> front_of(std::vector<ParetoPoint> points) {
  std::stable_sort(points.begin(), points.end(), [](const ParetoPoint& a, const ParetoPoint& b) {
    return a.device_need != b.device_need ? a.device_need < b.device_need : a.tokens_per_s > b.tokens_per_s;
  });
  std::vector<ParetoPoint> front;
  for (const ParetoPoint& point : points) {
    if (front.empty() || point.tokens_per_s > front.back().tokens_per_s * (1 + kTimeStep)) front.push_back(point);
  }
  return front;
}

/// The best of a search, or of what is known already.
WhatIf best_of(std::string change, const GridSearch& search, const std::vector<std::size_t>& outlines) {
  WhatIf result{std::move(change), std::nullopt, 0};
  for (const std::size_t o : ranked_outlines(search, outlines, 1)) {
    result.strategy = search.states()[o].best->plan.strategy;
    result.tokens_per_s = search.states()[o].best->tokens_per_s();
  }
  return result;
}

/// 8 GiB more: what fits now fits then, so only what is faster is searched.
WhatIf with_more_memory(const GridSearch& search, const Machine& machine, const std::vector<std::size_t>& all,
                        const RankedPlan& best) {
  Machine larger = machine;
  larger.device_bytes = *machine.device_bytes + kMoreMemory;
  GridSearch other(search, larger);
  other.find_best(all, 1, best.key);
  WhatIf result = best_of(fmt::format("{} more on each GPU", format_size(kMoreMemory)), other, all);
  if (!result.strategy || result.tokens_per_s < best.predicted.tokens_per_s) {
    result.strategy = best.plan.strategy;
    result.tokens_per_s = best.predicted.tokens_per_s;
  }
  return result;
}

std::optional<WhatIf> with_more_gpus(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                                     const FixedDecisions& fixed, const Evaluator& evaluator,
                                     const TuneOptions& options) {
  TrainingSpec more = training;
  more.gpus += more.nodes;
  if (more.global_batch && *more.global_batch % more.gpus != 0) return std::nullopt;
  Machine larger = machine;
  larger.gpus = more.gpus;
  const DecisionGrid grid(model, more, fixed, options.grid);
  GridSearch search(model, larger, more, grid, evaluator, options.threads);
  const auto all = outlines_of_stage(grid, std::nullopt);
  search.find_best(all, 1);
  return best_of(more.nodes == 1 ? "one more GPU" : "one more GPU on each node", search, all);
}

}  // namespace

std::int64_t time_step_of(Seconds update, std::uint64_t tokens) {
  const double per_token = update.value() / static_cast<double>(std::max<std::uint64_t>(tokens, 1));
  if (!(per_token > 0)) return std::numeric_limits<std::int64_t>::min() / 2;
  return static_cast<std::int64_t>(std::floor(std::log(per_token) / kTimeStep));
}

SearchAccount& SearchAccount::operator+=(const SearchAccount& other) {
  outlines += other.outlines;
  leaves += other.leaves;
  simulated += other.simulated;
  laid_out += other.laid_out;
  pruned_by_arithmetic += other.pruned_by_arithmetic;
  pruned_by_lane += other.pruned_by_lane;
  pruned_by_memory += other.pruned_by_memory;
  return *this;
}

TuneResult tune(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                const FixedDecisions& fixed, const Evaluator& evaluator, const TuneOptions& options) {
  const DecisionGrid grid(model, training, fixed, options.grid);
  GridSearch search(model, machine, training, grid, evaluator, options.threads);
  const auto all = outlines_of_stage(grid, std::nullopt);
  search.find_best(all, std::max<std::size_t>(options.top, 1));
  TuneResult result;
  result.account = search.account();
  const std::vector<std::size_t> ranked = ranked_outlines(search, all, std::max<std::size_t>(options.top, 1));
  // Why each stage lost: its own best plan, found in a search of its own where the ranking has none of it.
  std::vector<std::size_t> best_of_stage;
  for (std::uint64_t stage = 0; stage <= 3; ++stage) {
    const auto outlines = outlines_of_stage(grid, stage);
    if (outlines.empty()) continue;
    search.find_best(outlines, 1);
    for (const std::size_t o : ranked_outlines(search, outlines, 1)) best_of_stage.push_back(o);
  }
  for (const std::size_t o : ranked) {
    const FoundPlan& found = *search.states()[o].best;
    RunRecord predicted = evaluator.evaluate(found.plan);
    const Binding binds = binding_of(predicted);
    result.ranked.push_back({found.key, found.plan, found.fit, std::move(predicted), binds, {}});
  }
  result.pareto = front_of(search.laid_out());
  result.rejected = rejected_strategies(search, grid, machine, ranked, best_of_stage, kMostRejected);
  if (!result.ranked.empty()) {
    if (machine.device_bytes) result.what_if.push_back(with_more_memory(search, machine, all, result.ranked.front()));
    auto gpus = with_more_gpus(model, machine, training, fixed, evaluator, options);
    if (gpus) result.what_if.push_back(std::move(*gpus));
  }
  for (std::size_t r = 0; r < result.ranked.size(); ++r) explain(result, r, training, fixed);
  result.notes.emplace_back(
      "offload to host or disk is not searched: native plans keep all states on the device; --framework deepspeed or "
      "fsdp2 offers it");
  if (!training.global_batch && !fixed.micro_batch) {
    result.notes.emplace_back(
        "no --global-batch is given, so the micro-batch is chosen for speed alone and decides how many sequences an "
        "update sees");
  }
  return result;
}

}  // namespace zeroplan::planner
