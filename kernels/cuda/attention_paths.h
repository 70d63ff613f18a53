// The ways to compute attention, between which attention.cpp chooses. Each takes checked arguments with strides that
// are not 0; lse and delta lie as [sequences, heads, sequence_length]. Depends on kernels/attention.h.
#pragma once

#include "kernels/attention.h"
#include "kernels/cuda/context.h"

namespace zeroplan::kernels::cuda {

/// fp32 arithmetic on tiles in shared memory: any type and head size up to 256.
void enqueue_tiled(const AttentionForward& args, const Launch& launch);
/// \param delta  d_out . out of each row, from enqueue_delta
void enqueue_tiled(const AttentionBackward& args, const float* delta, const Launch& launch);

/// delta = d_out . out for each row and head.
void enqueue_delta(const AttentionBackward& args, float* delta, const Launch& launch);

}  // namespace zeroplan::kernels::cuda
