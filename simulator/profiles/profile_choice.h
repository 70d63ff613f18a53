// Whether a run of PyTorch, DDP, FSDP2 or DeepSpeed fits a machine, and what to change where it does not. Main types:
// ProfileNeed, ProfileAlternative, ProfileChoice. Depends on the profiles and planner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "planner/choice.h"
#include "simulator/profiles/profile.h"

namespace zeroplan::simulator {

/// What one run needs: of the device a rank, of host and disk a node.
struct ProfileNeed {
  StateParts states;
  std::optional<PeakPrediction> peak;  ///< none for a family whose blocks are unknown: the states alone are counted
  Bytes device, host, disk;
  planner::FitResult fit;
};

/// A change that was tried. Keys are those of `strategy`, and `gpus`.
struct ProfileAlternative {
  Json change;
  ProfileNeed need;
};

struct ProfileChoice {
  planner::TrainingSpec spec;
  planner::Strategy strategy;
  ProfileNeed need;
  std::vector<ProfileAlternative> alternatives;  ///< what fits, fewest changes first, or the closest; empty for a yes
  std::vector<std::string> why;
};

/// Tight: less than a tenth of a budget is left, or host memory below what DeepSpeed's own estimator asks for.
ProfileNeed profile_need(const models::Model& model, const planner::Machine& machine, const planner::TrainingSpec& spec,
                         const planner::Strategy& strategy);

/// The run as asked for; of decisions that were not given, those that make it fit with the fewest changes.
ProfileChoice choose_profile(const models::Model& model, const planner::Machine& machine,
                             const planner::TrainingSpec& spec, const planner::FixedDecisions& fixed);

}  // namespace zeroplan::simulator
