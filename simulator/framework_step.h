// About how long a training step of another framework takes. Purpose: tell fast strategies from slow ones; sums of
// resources with everything hidden that the framework can hide, so a bound rather than a promise. Main type:
// StepEstimate. Depends on planner.
#pragma once

#include <optional>

#include "models/model.h"
#include "planner/machine.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"
#include "simulator/states.h"

namespace zeroplan::simulator {

/// Seconds of one update.
struct StepEstimate {
  double arithmetic_s = 0;   ///< matrix products and attention of all passes
  double collectives_s = 0;  ///< gathers and reductions
  double transfers_s = 0;    ///< between device and host or disk
  double update_s = 0;       ///< the optimizer, wherever it runs
  double step_s = 0;
  double exposed_comm_s = 0;  ///< collectives that arithmetic does not hide
  double tokens_per_s = 0;    ///< of all ranks
};

/// FLOPs of one rank's pass: 6 per parameter that a token meets and token, 8 with full recompute; 2 less where only
/// adapters are trained (no gradient of frozen weights); causal attention 6 x tokens x seq x width a layer. Traffic:
/// Rajbhandari et al., ZeRO (SC 2020); DeepSpeed 0.19 at stage 2 moves as much as an all-reduce.
/// \returns nothing for a machine that states no rate of arithmetic
std::optional<StepEstimate> estimate_step(const models::Model& model, const TrainedParameters& trained,
                                          const planner::Machine& machine, const planner::TrainingSpec& training,
                                          const planner::Strategy& strategy);

}  // namespace zeroplan::simulator
