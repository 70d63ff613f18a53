#include "planner/tuner/grid_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <numeric>

#include "planner/dependencies.h"
#include "planner/memory_layout.h"
#include "planner/schedule/skeleton.h"
#include "planner/tuner/resource_bounds.h"

namespace zeroplan::planner {
namespace {

/// Outlines that are searched against one and the same threshold, so that the account does not depend on threads.
constexpr std::size_t kOutlinesAtOnce = 4;

/// Runs body(i) for i below `count` on so many threads; the first error is thrown again.
template <class Body>
void in_parallel(std::size_t count, std::size_t threads, Body&& body) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::future<void>> others;
  for (std::size_t t = 1; t < std::min(threads, count); ++t) others.push_back(std::async(std::launch::async, work));
  work();
  for (auto& other : others) other.get();
}

}  // namespace

GridSearch::GridSearch(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                       const DecisionGrid& grid, const Evaluator& evaluator, std::size_t threads)
    : model_(model),
      machine_(machine),
      training_(training),
      grid_(grid),
      evaluator_(evaluator),
      costs_(machine, training),
      threads_(std::max<std::size_t>(threads, 1)),
      states_(grid.outlines().size()) {
  bound_outlines();
  if (machine.device_bytes) bound_states();
}

GridSearch::GridSearch(const GridSearch& other, const Machine& machine)
    : model_(other.model_),
      machine_(machine),
      training_(other.training_),
      grid_(other.grid_),
      evaluator_(other.evaluator_),
      costs_(machine, other.training_),
      threads_(other.threads_),
      states_(other.states_.size()),
      always_live_(other.always_live_) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].leaves = other.states_[i].leaves;
    states_[i].time_step_at_least = other.states_[i].time_step_at_least;
    states_[i].activations_at_least = other.states_[i].activations_at_least;
  }
}

/// Outlines with the same programs take the same time: stages differ only in where gradients of several passes are
/// summed.
void GridSearch::bound_outlines() {
  const std::vector<Strategy>& outlines = grid_.outlines();
  using Programs = std::array<std::uint64_t, 6>;
  std::map<Programs, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < outlines.size(); ++i) {
    const Strategy& s = outlines[i];
    const std::uint64_t adds = s.accumulation > 1 && s.stage <= 1 ? 1 : 0;
    alike[{s.micro_batch, s.accumulation, static_cast<std::uint64_t>(s.recompute), s.recompute_blocks, s.head_chunks,
           adds}]
        .push_back(i);
  }
  std::vector<const std::vector<std::size_t>*> classes;
  for (const auto& entry : alike) classes.push_back(&entry.second);
  in_parallel(classes.size(), threads_, [&](std::size_t c) {
    const Plan skeleton = build_skeleton(model_, machine_, training_, outlines[classes[c]->front()]);
    const std::int64_t time_step = time_step_of(arithmetic_time(skeleton, costs_), skeleton.tokens_per_update());
    const Bytes activations = activation_bytes_at_least(skeleton);
    for (const std::size_t i : *classes[c]) {
      states_[i].time_step_at_least = time_step;
      states_[i].activations_at_least = activations;
    }
  });
  account_.outlines = states_.size();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].leaves = grid_.leaves(i).size();
    account_.leaves += states_[i].leaves;
  }
}

GridSearch::StateKey GridSearch::state_key(const Strategy& s) {
  return {s.stage, s.param_persistence_threshold, s.micro_batch, s.accumulation};
}

void GridSearch::bound_states() {
  std::map<StateKey, Strategy> examples;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (const Strategy& leaf : grid_.leaves(i)) examples.emplace(state_key(leaf), leaf);
  }
  std::vector<std::pair<const Strategy*, Bytes*>> work;
  for (const auto& [key, example] : examples) work.emplace_back(&example, &always_live_[key]);
  in_parallel(work.size(), threads_, [&](std::size_t i) {
    *work[i].second = always_live_bytes(build_skeleton(model_, machine_, training_, *work[i].first));
  });
}

std::optional<RankKey> GridSearch::threshold_of(std::span<const std::size_t> outlines, std::size_t top) const {
  std::vector<RankKey> keys;
  for (const std::size_t o : outlines) {
    if (states_[o].best) keys.push_back(states_[o].best->key);
  }
  if (keys.size() < top) return std::nullopt;
  std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(top - 1), keys.end());
  return keys[top - 1];
}

void GridSearch::find_best(std::span<const std::size_t> outlines, std::size_t top,
                           const std::optional<RankKey>& known) {
  std::vector<std::size_t> order(outlines.begin(), outlines.end());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(states_[a].time_step_at_least, a) < std::pair(states_[b].time_step_at_least, b);
  });
  std::erase_if(order, [&](std::size_t o) { return states_[o].is_searched; });
  for (std::size_t begin = 0; begin < order.size();) {
    std::optional<RankKey> threshold = threshold_of(outlines, top);
    if (known && (!threshold || *known < *threshold)) threshold = known;
    const auto can_win = [&](std::size_t o) {
      return !threshold || RankKey{Verdict::kYes, states_[o].time_step_at_least, o, 0} < *threshold;
    };
    std::vector<std::size_t> batch;
    for (; begin < order.size() && batch.size() < kOutlinesAtOnce; ++begin) {
      if (can_win(order[begin])) batch.push_back(order[begin]);
    }
    run_all(batch, threshold);
  }
}

void GridSearch::run_all(std::span<const std::size_t> outlines, const std::optional<RankKey>& threshold) {
  std::vector<Worker> workers(outlines.size());
  in_parallel(outlines.size(), threads_, [&](std::size_t i) { search_outline(outlines[i], threshold, workers[i]); });
  for (const Worker& worker : workers) {
    account_ += worker.account;
    laid_out_.insert(laid_out_.end(), worker.laid_out.begin(), worker.laid_out.end());
  }
}

void GridSearch::search_outline(std::size_t outline, const std::optional<RankKey>& threshold, Worker& worker) {
  OutlineState& state = states_[outline];
  state.is_searched = true;
  /// Context included.
  const auto note_need = [&](Bytes need, bool is_bound, std::optional<Tier> limit) {
    if (need >= state.least_need) return;
    state.least_need = need;
    state.least_need_is_bound = is_bound;
    state.limit = limit;
  };
  /// True if a leaf of this time, should it fit, would be no better than what is known.
  const auto is_beaten = [&](std::int64_t time_step, std::size_t leaf) {
    const RankKey key{Verdict::kYes, time_step, outline, leaf};
    return (state.best && key > state.best->key) || (threshold && key > *threshold);
  };
  const auto is_too_large = [&](Bytes at_least, Bytes budget) {
    if (at_least <= budget) return false;
    ++worker.account.pruned_by_memory;
    note_need(at_least, true, Tier::kDevice);
    return true;
  };
  const std::vector<Strategy> leaves = grid_.leaves(outline);
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (is_beaten(state.time_step_at_least, leaf)) {
      worker.account.pruned_by_arithmetic += leaves.size() - leaf;
      return;
    }
    if (machine_.device_bytes) {
      const Bytes at_least = always_live_.at(state_key(leaves[leaf])) + state.activations_at_least;
      if (is_too_large(at_least + machine_.context_bytes, *machine_.device_bytes)) continue;
    }
    Plan plan = build_skeleton(model_, machine_, training_, leaves[leaf]);
    if (is_beaten(time_step_of(busiest_lane_time(plan, costs_), plan.tokens_per_update()), leaf)) {
      ++worker.account.pruned_by_lane;
      continue;
    }
    const std::optional<Bytes>& budget = plan.tier(Tier::kDevice).budget;
    if (budget && is_too_large(device_bytes_at_least(plan) + machine_.context_bytes, *budget + machine_.context_bytes))
      continue;
    add_dependency_waits(plan);
    const Seconds step = evaluator_.step_time(plan);
    ++worker.account.simulated;
    const std::int64_t time_step = time_step_of(step, plan.tokens_per_update());
    if (is_beaten(time_step, leaf)) continue;
    lay_out_memory(plan, kQuickPacking);
    ++worker.account.laid_out;
    const FitResult fit = judge_fit(plan);
    worker.laid_out.push_back({plan.strategy, plan.tier(Tier::kDevice).arena + machine_.context_bytes,
                               static_cast<double>(plan.tokens_per_update()) / step.value(),
                               fit.verdict != Verdict::kNo});
    if (fit.verdict == Verdict::kNo) {
      note_need(plan.tier(Tier::kDevice).arena + machine_.context_bytes, false, fit.limit);
      continue;
    }
    const RankKey key{fit.verdict, time_step, outline, leaf};
    if (state.best && !(key < state.best->key)) continue;
    if (!is_laid_out_tightly(plan)) lay_out_memory(plan);  // now what make_plan gives for the strategy
    state.best = FoundPlan{key, std::move(plan), fit, step};
  }
}

SearchAccount GridSearch::account() const {
  SearchAccount account = account_;
  for (const OutlineState& state : states_) {
    if (!state.is_searched) account.pruned_by_arithmetic += state.leaves;
  }
  return account;
}

}  // namespace zeroplan::planner
