// Chooses the decisions that the user left open, and says why. Main types: Verdict, Candidate, PlanChoice. Depends on
// plan_maker.
#pragma once

#include <string>
#include <vector>

#include "planner/evaluator.h"
#include "planner/plan.h"
#include "planner/strategy.h"

namespace zeroplan::planner {

/// Whether a plan fits; tight: with less headroom than the prediction's own error.
enum class Verdict { kYes, kTight, kNo };
template <>
inline constexpr auto kNamesOf<Verdict> = std::to_array<std::pair<Verdict, std::string_view>>(
    {{Verdict::kYes, "yes"}, {Verdict::kTight, "tight"}, {Verdict::kNo, "no"}});

/// A budget is tight if less than this part of it is left: native device memory is planned to the byte.
constexpr double kTightFraction = 0.01;

struct FitResult {
  Verdict verdict = Verdict::kYes;
  std::optional<Tier> limit;  ///< the tier that is short, or nearest to it
};

/// Compares the arenas with the budgets.
FitResult judge_fit(const Plan& plan);

/// What was tried beside the choice.
struct Candidate {
  Strategy strategy;
  FitResult fit;
  Bytes device_need;  ///< of one rank, context included
  std::optional<Seconds> step;
  double tokens_per_s = 0;
};

/// The chosen plan and the reasons.
struct PlanChoice {
  Plan plan;
  FitResult fit;
  RunRecord predicted;
  std::vector<Candidate> candidates;  ///< all that were costed, the choice among them
  std::vector<std::string> why;       ///< sentences with numbers; the first names the tier and the largest holders
};

/// Sizes that follow from the model alone, so that plans of all stages reduce and clip in the same order; decisions
/// that are fixed stay as they are.
Strategy with_model_sizes(const models::Model& model, const TrainingSpec& training, const FixedDecisions& fixed,
                          Strategy strategy);

/// Tries the open decisions (stage, recompute, micro-batch x accumulation under the global batch) and takes the fastest
/// that fits; if none fits, the one that needs least. \throws as make_plan
PlanChoice choose_plan(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                       const FixedDecisions& fixed, const Evaluator& evaluator);

/// The largest holders of a tier's lower bound, by kind ("moments", "saved activations", ...), descending.
std::vector<HolderRecord> holders_by_kind(const Plan& plan, Tier tier);

}  // namespace zeroplan::planner
