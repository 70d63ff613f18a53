// The simulator as the planner's Evaluator. Main type: SimulationEvaluator.
#pragma once

#include "planner/evaluator.h"

namespace zeroplan::simulator {

/// Simulates plans on the machine that each of them names.
class SimulationEvaluator : public planner::Evaluator {
 public:
  planner::RunRecord evaluate(const planner::Plan& plan) const override;
  Seconds step_time(const planner::Plan& plan) const override;
};

}  // namespace zeroplan::simulator
