// How the tuner learns what a plan will take. Declared here and implemented by the simulator, so that the planner
// depends on neither simulator nor runtime. Main type: Evaluator.
#pragma once

#include "planner/run_record.h"

namespace zeroplan::planner {

/// Predicts one update of a plan's training cycle.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Safe to call from several threads. \throws Error{kInvalidInput} if tasks of the plan wait for one another in a
  /// circle
  virtual RunRecord evaluate(const Plan& plan) const = 0;
  /// `step` of the record alone. Offsets of the plan may still be open. \throws as evaluate
  virtual Seconds step_time(const Plan& plan) const { return evaluate(plan).step; }
};

}  // namespace zeroplan::planner
