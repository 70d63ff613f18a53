// The search over the grid: outlines by their arithmetic, leaves within them, bounds before schedules. Main type:
// GridSearch. Used by tuner.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "planner/cost_model.h"
#include "planner/tuner/tuner.h"

namespace zeroplan::planner {

/// The best leaf of an outline.
struct FoundPlan {
  RankKey key;
  Plan plan;
  FitResult fit;
  Seconds step;
  double tokens_per_s() const { return static_cast<double>(plan.tokens_per_update()) / step.value(); }
};

/// What is known about an outline so far.
struct OutlineState {
  std::uint64_t leaves = 0;
  std::int64_t time_step_at_least = 0;  ///< by its arithmetic
  Bytes activations_at_least;
  std::optional<FoundPlan> best;
  bool is_searched = false;
  Bytes least_need = Bytes(UINT64_MAX);  ///< of its leaves that do not fit, context included; may be a bound
  bool least_need_is_bound = true;
  std::optional<Tier> limit;
};

class GridSearch {
 public:
  GridSearch(const models::Model& model, const Machine& machine, const TrainingSpec& training, const DecisionGrid& grid,
             const Evaluator& evaluator, std::size_t threads);

  /// The same grid with other budgets: what outlines take at least is known from `other`.
  GridSearch(const GridSearch& other, const Machine& machine);

  /// Searches these outlines until the `top` best among them are known. Outlines that were searched before count too.
  /// \param known  a plan that fits: only what is better is searched
  void find_best(std::span<const std::size_t> outlines, std::size_t top, const std::optional<RankKey>& known = {});

  const std::vector<OutlineState>& states() const { return states_; }
  const std::vector<ParetoPoint>& laid_out() const { return laid_out_; }
  /// With the leaves of outlines that were never searched.
  SearchAccount account() const;

 private:
  struct Worker {
    SearchAccount account;
    std::vector<ParetoPoint> laid_out;
  };

  /// What always lives depends on these alone.
  struct StateKey {
    std::uint64_t stage, threshold, micro_batch, accumulation;
    friend auto operator<=>(const StateKey&, const StateKey&) = default;
  };

  static StateKey state_key(const Strategy& s);
  void bound_outlines();
  void bound_states();
  void search_outline(std::size_t outline, const std::optional<RankKey>& threshold, Worker& worker);
  void run_all(std::span<const std::size_t> outlines, const std::optional<RankKey>& threshold);
  std::optional<RankKey> threshold_of(std::span<const std::size_t> outlines, std::size_t top) const;

  const models::Model& model_;
  const Machine& machine_;
  const TrainingSpec& training_;
  const DecisionGrid& grid_;
  const Evaluator& evaluator_;
  CostModel costs_;
  std::size_t threads_;
  std::vector<OutlineState> states_;
  std::map<StateKey, Bytes> always_live_;
  std::vector<ParetoPoint> laid_out_;
  SearchAccount account_;
};

}  // namespace zeroplan::planner
