// Names of what an eager training step allocates. One list, so that a log needs two bytes an event. Depends on nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zeroplan::simulator {

/// Who holds bytes. The order is that of `kSiteNames`.
enum Site : std::uint16_t {
  kWeights,
  kFrozenWeights,
  kGradients,
  kOptimizerStates,
  kMasterWeights,
  kWorkspace,
  kAutocastCopies,
  kInputs,
  kResidual,
  kNormInternals,
  kNormOutput,
  kQkv,
  kRotary,
  kAttentionScores,
  kAttentionMask,
  kAttentionOutput,
  kAttentionStatistics,
  kMlpHidden,
  kMlpActivation,
  kRouter,
  kExperts,
  kCastActivations,
  kDropoutMasks,
  kLogits,
  kLossTerms,
  kActivationGradients,
  kEmbeddingTemporaries,
  kAdapter,
  kGathered,
  kGatherBuffers,
  kReduceBuffers,
  kShardedGradients,
  kOptimizerTemporaries,
  kStagingBuffers,
  kSiteCount,
};

constexpr std::array<std::string_view, kSiteCount> kSiteNames = {
    "weights",
    "frozen weights",
    "gradients",
    "optimizer states",
    "master weights",
    "matrix library workspace",
    "16-bit copies of weights (autocast)",
    "token ids and positions",
    "activations: residual stream",
    "activations: norm internals",
    "activations: norm outputs",
    "activations: queries, keys, values",
    "activations: rotary temporaries",
    "attention scores",
    "attention mask",
    "activations: attention outputs",
    "activations: attention statistics",
    "activations: MLP hidden",
    "activations: MLP activation function",
    "activations: expert routing",
    "activations: experts",
    "activations: 16-bit copies (autocast)",
    "dropout masks",
    "logits",
    "loss",
    "gradients of activations",
    "embedding gradient temporaries",
    "activations: low-rank adapters",
    "gathered weights",
    "all-gather buffers",
    "reduce buffers",
    "sharded gradients",
    "optimizer temporaries",
    "staging buffers",
};

}  // namespace zeroplan::simulator
