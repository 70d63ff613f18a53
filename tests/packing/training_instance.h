// Instances in the shape of a transformer's training step: a stack of saved activations that backward unwinds, gathered
// parameters that run ahead, gradients until they are reduced, shards that stay to the end, frames and the head's
// logits.
#pragma once

#include <cstdint>

#include "planner/packing/packing.h"

namespace zeroplan::planner {

struct TrainingShape {
  std::uint32_t layers = 12;
  std::uint64_t saved = 400;          ///< bytes per layer, kept from forward to backward
  std::uint32_t saved_parts = 3;      ///< buffers that share them, unevenly
  bool recompute = false;             ///< keeps a tenth, and a larger frame in backward
  std::uint64_t frame = 150;          ///< bytes per task
  std::uint64_t gathered = 200;       ///< bytes of one layer's parameters; 0 = they stay
  std::uint32_t gather_ahead = 1;     ///< tasks by which the gather lane runs ahead
  std::uint64_t gradient = 300;       ///< bytes of one layer's gradients; 0 = none of their own
  std::uint32_t reduce_behind = 1;    ///< tasks by which the reduce lane lags
  std::uint64_t gradient_shard = 40;  ///< bytes of one layer's shard, kept to the end; 0 = none
  std::uint64_t logits = 900;         ///< bytes of the head's logits
  std::uint64_t embedding = 500;      ///< bytes of the gathered embedding, first and last unit
  std::uint64_t pinned = 0;           ///< bytes that live always, pinned to the bottom
};

/// Positions are times; lives of the gather and reduce lanes reach `gather_ahead` and `reduce_behind` further than
/// their positions say, so conflicts go beyond what positions show, as they do in plans.
ConflictInstance training_instance(const TrainingShape& shape);

}  // namespace zeroplan::planner
