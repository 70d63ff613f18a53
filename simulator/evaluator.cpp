#include "simulator/evaluator.h"

#include "planner/cost_model.h"
#include "simulator/event_simulator.h"

namespace zeroplan::simulator {

planner::RunRecord SimulationEvaluator::evaluate(const planner::Plan& plan) const {
  const planner::CostModel costs(plan.machine, plan.training);
  return simulate(plan, costs).record;
}

Seconds SimulationEvaluator::step_time(const planner::Plan& plan) const {
  const planner::CostModel costs(plan.machine, plan.training);
  return simulate(plan, costs, {.time_only = true}).record.step;
}

}  // namespace zeroplan::simulator
