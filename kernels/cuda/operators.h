// The operators on an NVIDIA GPU. Purpose: one `enqueue` for each argument struct of kernels/*.h, of the same meaning
// as its reference twin. Conventions, besides those of kernels.h:
// - All pointers are device pointers, StepScalars* and labels too. fp32, bf16 and fp16; arithmetic is fp32, sums of
//   squares and losses are double.
// - A call enqueues kernels on launch.stream and returns; it may be captured into a CUDA graph once it was prepared.
//   Scratch comes from launch.workspace (the structs' own `workspace` is not read): `workspace_bytes` says how much.
// - Deterministic: the same inputs on the same kind of device give the same bits; no atomics on floating point.
// - AttentionForward::lse is kept as [sequences, heads, sequence_length], not [tokens, heads], in the same bytes: cuDNN
//   wants it so. Only the backward pass reads it.
// - Errors: Error{kUnsupported} for a dtype or shape, Error{kDevice} if the launch fails, Error{kInternal} for extents
//   that contradict each other or a workspace that is too small.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/cuda/context.h"
#include "kernels/kernels.h"

namespace zeroplan::kernels::cuda {

// --- Before the first step -------------------------------------------------------------------------------------------

/// Chooses algorithms and builds plans for calls of this shape. Host memory is allocated here, and only here if every
/// shape was prepared. The pointers' alignment counts, their values do not.
void prepare(const Gemm& args, Context& context);
void prepare(const LinearForward& args, Context& context);
void prepare(const LinearBackwardInput& args, Context& context);
void prepare(const LinearBackwardWeight& args, Context& context);
void prepare(const AttentionForward& args, Context& context);
void prepare(const AttentionBackward& args, Context& context);
/// All other operators have nothing to prepare.
template <class Operator>
void prepare(const Operator&, Context&) {}

/// "cudnn", "own" (tensor cores) or "tiled": what would run this shape.
std::string implementation(const AttentionForward& args, Context& context);
std::string implementation(const AttentionBackward& args, Context& context);

/// Bytes of launch.workspace a call needs. Pure functions of the shapes; see models/core/cuda_workspace.h.
std::size_t workspace_bytes(const EmbeddingBackward& args);
std::size_t workspace_bytes(const LayerNormBackward& args);
std::size_t workspace_bytes(const RmsNormBackward& args);
std::size_t workspace_bytes(const Gemm& args);
std::size_t workspace_bytes(const LinearForward& args);
std::size_t workspace_bytes(const LinearBackwardInput& args);
std::size_t workspace_bytes(const LinearBackwardWeight& args);
std::size_t workspace_bytes(const AttentionForward& args);
std::size_t workspace_bytes(const AttentionBackward& args);
std::size_t workspace_bytes(const SumOfSquares& args);
std::size_t workspace_bytes(const LambNorms& args);
/// All other operators need none.
template <class Operator>
std::size_t workspace_bytes(const Operator&) {
  return 0;
}

// --- Layers ----------------------------------------------------------------------------------------------------------

void enqueue(const EmbeddingForward& args, const Launch& launch);
void enqueue(const EmbeddingBackward& args, const Launch& launch);
void enqueue(const LayerNormForward& args, const Launch& launch);
void enqueue(const LayerNormBackward& args, const Launch& launch);
void enqueue(const RmsNormForward& args, const Launch& launch);
void enqueue(const RmsNormBackward& args, const Launch& launch);
void enqueue(const Gemm& args, const Launch& launch);
void enqueue(const LinearForward& args, const Launch& launch);
void enqueue(const LinearBackwardInput& args, const Launch& launch);
void enqueue(const LinearBackwardWeight& args, const Launch& launch);
void enqueue(const Rotary& args, const Launch& launch);
void enqueue(const AttentionForward& args, const Launch& launch);
void enqueue(const AttentionBackward& args, const Launch& launch);
void enqueue(const GeluForward& args, const Launch& launch);
void enqueue(const GeluBackward& args, const Launch& launch);
void enqueue(const GatedSiluForward& args, const Launch& launch);
void enqueue(const GatedSiluBackward& args, const Launch& launch);
void enqueue(const CrossEntropy& args, const Launch& launch);
void enqueue(const LossSum& args, const Launch& launch);

// --- Flat ranges -----------------------------------------------------------------------------------------------------

void enqueue(const Add& args, const Launch& launch);
void enqueue(const Scale& args, const Launch& launch);
void enqueue(const Fill& args, const Launch& launch);
void enqueue(const Copy& args, const Launch& launch);

/// *result = (or, with `add`, +=) the sum of squares, over a tree that depends on `count` alone.
void enqueue_sum_of_squares(const SumOfSquares& args, double* result, bool add, const Launch& launch);

/// finish_norm and then advance_optimizer_step, from `count` sums that lie `stride` doubles apart, added in order.
void enqueue_finish_norm(StepScalars* scalars, const double* partials, std::size_t stride, std::size_t count,
                         const Launch& launch);

/// Most ranks whose buffers one ordered sum adds.
constexpr std::size_t kMaxOrderedInputs = 64;

/// out = inputs[0] + inputs[1] + ..., in this order, in fp32, rounded once: a reduction over ranks of one device.
struct OrderedSum {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  std::size_t input_count = 0;
  const void* inputs[kMaxOrderedInputs] = {};
  void* out = nullptr;  ///< may be one of the inputs
};
void enqueue_ordered_sum(const OrderedSum& args, const Launch& launch);

// --- Optimizers ------------------------------------------------------------------------------------------------------

/// The rules of OptimizerStep.
enum class ElementwiseOptimizer { kAdam, kSgd, kLion, kAdagrad };

void enqueue(const AdamW& args, const Launch& launch);
void enqueue(ElementwiseOptimizer optimizer, const OptimizerStep& args, const Launch& launch);
void enqueue(const LambMoments& args, const Launch& launch);
void enqueue(const LambUpdate& args, const Launch& launch);
/// *result = (or +=) the sums of the part.
void enqueue_lamb_norms(const LambNorms& args, LambSums* result, bool add, const Launch& launch);
/// ratios[p] = lamb_ratio(*scalars, sum of parts[r x count + p] over r in order), for p < count and r < ranks.
void enqueue_lamb_ratios(const StepScalars* scalars, const LambSums* parts, std::size_t ranks, std::size_t count,
                         double* ratios, const Launch& launch);

}  // namespace zeroplan::kernels::cuda
