// Searches the decision grid for the strategies with the highest predicted tokens/s that fit. Purpose: the answer of a
// full enumeration in a fraction of its time, with an account of what was left out and why. Main types: TuneOptions,
// RankedPlan, RejectedStrategy, SearchAccount, TuneResult. Depends on plan_maker, choice and the Evaluator.
//
// Leaves are costed by the schedule and the evaluator that plans run with. A leaf is left out only if a sum of
// resources says that it cannot win: its arithmetic, its busiest lane, or the bytes that it keeps at one task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/choice.h"
#include "planner/tuner/decision_grid.h"

namespace zeroplan::planner {

struct TuneOptions {
  std::size_t top = 10;     ///< outlines in the ranking, each with its best leaf; at least 1
  std::size_t threads = 2;  ///< does not change the result
  GridValues grid;
};

/// Order of the ranking: what fits with a margin before what is tight; then tokens/s in steps of a thousandth; then the
/// grid's order of preference. A total order, so that the search and a full enumeration agree.
struct RankKey {
  Verdict verdict = Verdict::kNo;
  std::int64_t time_step = 0;  ///< seconds per token on a logarithmic scale
  std::uint64_t outline = 0;
  std::uint64_t leaf = 0;
  friend auto operator<=>(const RankKey&, const RankKey&) = default;
};

/// Thousandths of the logarithm of seconds per token. \param tokens  of the update that takes so long
std::int64_t time_step_of(Seconds update, std::uint64_t tokens);

/// What fills the step: arithmetic and updates, gathers and reductions, or neither.
enum class Binding { kCompute, kLink, kLatency };
template <>
inline constexpr auto kNamesOf<Binding> = std::to_array<std::pair<Binding, std::string_view>>(
    {{Binding::kCompute, "compute"}, {Binding::kLink, "link"}, {Binding::kLatency, "latency"}});

struct RankedPlan {
  RankKey key;
  Plan plan;
  FitResult fit;
  RunRecord predicted;
  Binding binds = Binding::kCompute;
  std::vector<std::string> why;
};

struct RejectedStrategy {
  Strategy strategy;
  std::optional<Tier> limit;  ///< empty: it fits and is slower
  Bytes device_need;          ///< context included; a lower bound where `is_bound`
  bool is_bound = false;
  std::string reason;
};

/// A plan of which no other one that was laid out is both faster and smaller.
struct ParetoPoint {
  Strategy strategy;
  Bytes device_need;
  double tokens_per_s = 0;
  bool fits = true;
};

/// Leaves by what became of them; they add up to `leaves`.
struct SearchAccount {
  std::uint64_t outlines = 0;
  std::uint64_t leaves = 0;
  std::uint64_t simulated = 0;  ///< scheduled and simulated
  std::uint64_t laid_out = 0;   ///< of those: memory planned to the byte too
  std::uint64_t pruned_by_arithmetic = 0;
  std::uint64_t pruned_by_lane = 0;
  std::uint64_t pruned_by_memory = 0;

  SearchAccount& operator+=(const SearchAccount& other);
};

/// What a change of the machine would give.
struct WhatIf {
  std::string change;
  std::optional<Strategy> strategy;  ///< empty: still nothing fits
  double tokens_per_s = 0;
};

struct TuneResult {
  std::vector<RankedPlan> ranked;
  std::vector<RejectedStrategy> rejected;
  std::vector<ParetoPoint> pareto;  ///< by memory, ascending
  std::vector<WhatIf> what_if;
  SearchAccount account;
  std::vector<std::string> notes;
};

/// \throws as make_plan where no leaf of the grid can be planned at all
TuneResult tune(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                const FixedDecisions& fixed, const Evaluator& evaluator, const TuneOptions& options = {});

}  // namespace zeroplan::planner
