// Whether a run of another framework fits a machine, what would make it fit, and which strategy is best. Purpose: plan
// and tune for pytorch, ddp, fsdp2 and deepspeed, by their memory profiles. Main types: FrameworkRun, FrameworkPlan,
// FrameworkAlternative, FrameworkSearch. Depends on planner and the profiles.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/choice.h"
#include "simulator/framework_step.h"
#include "simulator/profiles/profile.h"

namespace zeroplan::simulator {

/// A prediction of another framework's memory is about so wrong at worst; with less headroom a run is tight.
constexpr double kFrameworkTightFraction = 0.10;

/// The question: a model in a framework on a machine.
struct FrameworkRun {
  const models::Model& model;
  planner::Machine machine;
  planner::TrainingSpec training;
};

/// One strategy and what it needs.
struct FrameworkPlan {
  planner::TrainingSpec training;
  planner::Strategy strategy;
  StateParts states;
  std::optional<PeakPrediction> peak;  ///< empty where the blocks of the family are unknown
  Bytes device;                        ///< of one rank, context included; states alone without a peak
  Bytes host;                          ///< of one node
  Bytes disk;
  planner::FitResult fit;
  std::optional<StepEstimate> step;
};

FrameworkPlan plan_framework(const FrameworkRun& run, const planner::Strategy& strategy);

/// What differs from the run that does not fit, under the keys of `strategy` (and gpus).
struct FrameworkAlternative {
  Json change = Json::object();
  FrameworkPlan plan;
  std::string why;
};

/// Higher stages, offloads, recompute, micro-batch 1, bf16, more GPUs, adapters: what fits, fewest changes first; if
/// nothing does, what is closest.
std::vector<FrameworkAlternative> framework_alternatives(const FrameworkRun& run, const FrameworkPlan& plan);

/// Strategies in order: those that fit with headroom first, then by predicted tokens/s (in the order of preference
/// where the machine states no rates): no offload before offload, low stages before high ones.
struct FrameworkSearch {
  std::vector<FrameworkPlan> ranked;    ///< that fit
  std::vector<FrameworkPlan> rejected;  ///< that do not, the closest first
  std::uint64_t considered = 0;
  std::uint64_t left_out = 0;  ///< larger micro-batches of what does not fit
};

/// \param micro_batches  that are tried where neither they nor a global batch are fixed
FrameworkSearch search_framework(const FrameworkRun& run, const planner::FixedDecisions& fixed,
                                 const std::vector<std::uint64_t>& stages,
                                 const std::vector<std::uint64_t>& micro_batches);

/// "stage 3, optimizer on cpu, full recompute, micro-batch 4 x 2"
std::string strategy_name(const planner::Strategy& strategy);

}  // namespace zeroplan::simulator
