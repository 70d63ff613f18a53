// Host memory of a DeepSpeed run with offload: pinned buffers as PyTorch's caching host allocator rounds them. Main
// function: deepspeed_host_bytes. Depends on states.
#pragma once

#include "models/model.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"
#include "simulator/states.h"

namespace zeroplan::simulator {

/// Bytes of a node, all its ranks together, while it trains. DeepSpeed 0.19.6, pin_memory true, one parameter group:
///   stages 1, 2: fp32 weights, fp32 gradients and 16-bit staging of a rank's share, each one pinned buffer; moments
///                pageable
///   stage 3:     16-bit weights (with offload_param) and the gradient shard, each one pinned buffer; fp32 gradients
///   one
///                pinned buffer a sub-group; fp32 weights and moments pageable
///   disk:        four pinned buffers of the largest sub-group for the optimizer, five of 1e8 elements for parameters
/// A pinned buffer takes the next power of two. What loading the weights takes on top is not counted.
Bytes deepspeed_host_bytes(const models::Model& model, const TrainedParameters& trained,
                           const planner::TrainingSpec& training, const planner::Strategy& strategy);

}  // namespace zeroplan::simulator
