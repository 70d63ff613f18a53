// The decisions that the tuner tries, all of them in this one file. Main types: GridValues (the values), Outline (what
// decides the arithmetic), DecisionGrid. Depends on choice and strategy.
//
// Offloads are not in the grid: native plans keep all states on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::planner {

/// What stays gathered at stage 3, in units: elements gathered at most, and how far ahead a use may be to keep a group.
struct ResidencyFactors {
  double live_units = 3;
  double reuse_units = 0;
};

/// Values of each decision, the preferred one first. Factors are of the model's largest unit unless stated otherwise.
struct GridValues {
  std::vector<std::uint64_t> stages = {0, 1, 2, 3};
  /// Without a global batch; under one some of its divisors are tried, so many at most (planner/batches.h).
  std::vector<std::uint64_t> micro_batches = {1, 2, 4, 8, 16, 32, 64};
  std::size_t most_micro_batches = 8;
  bool selective_recompute = true;                                 ///< the attention core of every block
  std::vector<double> recomputed_parts = {0, 0.25, 0.5, 0.75, 1};  ///< of the blocks, everything but their input
  std::vector<std::uint64_t> head_chunk_factors = {1, 2};          ///< of what choice.h derives from the vocabulary
  std::vector<double> reduce_buckets = {1, 0.5};
  std::vector<double> allgather_buckets = {1, 2};
  std::vector<double> prefetch = {1, 2};                             ///< stage 3
  std::vector<double> persistence_widths = {10, 0};                  ///< stage 3, of the model's width
  std::vector<ResidencyFactors> residencies = {{3, 0}, {1e6, 1e6}};  ///< stage 3; the last keeps all
};

/// The grid of one run: outlines, and under each of them leaves that differ in sizes of collectives only.
class DecisionGrid {
 public:
  /// Decisions that are fixed have their one value.
  DecisionGrid(const models::Model& model, const TrainingSpec& training, const FixedDecisions& fixed,
               const GridValues& values = {});

  /// Stage, micro-batch x accumulation, recompute, head chunks; sizes are those of the first leaf.
  const std::vector<Strategy>& outlines() const { return outlines_; }
  /// All strategies of an outline, the preferred one first, no two alike.
  std::vector<Strategy> leaves(std::size_t outline) const;
  /// Leaves of all outlines.
  std::uint64_t size() const;

 private:
  void add_outlines(std::uint64_t micro_batch, std::uint64_t accumulation);
  Strategy completed(const Strategy& outline) const;

  const models::Model& model_;
  const TrainingSpec& training_;
  const FixedDecisions& fixed_;
  const GridValues values_;
  std::vector<Strategy> outlines_;
};

}  // namespace zeroplan::planner
