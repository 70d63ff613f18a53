// Why a tuned plan is as it is, and why others lost, in sentences with numbers. Used by tuner.
#pragma once

#include <span>

#include "planner/tuner/grid_search.h"

namespace zeroplan::planner {

/// What the step of this record waits for.
Binding binding_of(const RunRecord& record);

/// Fills `why` of one plan of the ranking.
void explain(TuneResult& result, std::size_t rank, const TrainingSpec& training, const FixedDecisions& fixed);

/// Stages that fit and are slower, then outlines that do not fit, those that need least first.
std::vector<RejectedStrategy> rejected_strategies(const GridSearch& search, const DecisionGrid& grid,
                                                  const Machine& machine, std::span<const std::size_t> ranked,
                                                  std::span<const std::size_t> best_of_stage, std::size_t most);

}  // namespace zeroplan::planner
