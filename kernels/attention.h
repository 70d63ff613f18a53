// Causal grouped-query attention with streaming softmax: no score matrix is kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/attention_workspace.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// Extents shared by both passes. Sequences are consecutive rows; query head h uses key/value head h / (heads /
/// kv_heads). Row strides let q, k and v be parts of one fused [tokens, 3 x width] tensor; 0 means dense.
struct AttentionShape {
  DType dtype = DType::kFp32;
  std::size_t sequences = 0;
  std::size_t sequence_length = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;   ///< divides heads
  std::size_t head_size = 0;  ///< at most kMaxHeadSize
  float scale = 1;            ///< of the scores, usually 1 / sqrt(head_size)
  std::size_t window = 0;  ///< a query sees the last `window` keys, itself included; 0: all (mistral's sliding window)
};

/// out = softmax(scale q k^T + causal mask) v; lse = log of the softmax's denominator, for the backward pass.
struct AttentionForward {
  AttentionShape shape;
  const void* q = nullptr;  ///< [tokens, heads x head_size]
  std::size_t q_stride = 0;
  const void* k = nullptr;  ///< [tokens, kv_heads x head_size]
  std::size_t k_stride = 0;
  const void* v = nullptr;  ///< [tokens, kv_heads x head_size]
  std::size_t v_stride = 0;
  void* out = nullptr;  ///< [tokens, heads x head_size]
  std::size_t out_stride = 0;
  float* lse = nullptr;  ///< [tokens, heads]
};

/// Gradients of q, k and v, which are set (not added to). They may share one fused tensor but overlap no input.
struct AttentionBackward {
  AttentionShape shape;
  const void* d_out = nullptr;
  std::size_t d_out_stride = 0;
  const void* q = nullptr;
  std::size_t q_stride = 0;
  const void* k = nullptr;
  std::size_t k_stride = 0;
  const void* v = nullptr;
  std::size_t v_stride = 0;
  const void* out = nullptr;
  std::size_t out_stride = 0;
  const float* lse = nullptr;
  void* d_q = nullptr;
  std::size_t d_q_stride = 0;
  void* d_k = nullptr;
  std::size_t d_k_stride = 0;
  void* d_v = nullptr;
  std::size_t d_v_stride = 0;
  void* workspace = nullptr;  ///< attention_backward_workspace_bytes; none with fp32
};

namespace reference {
void attention_forward(const AttentionForward& args);
void attention_backward(const AttentionBackward& args);
}  // namespace reference

namespace cpu {
void attention_forward(const AttentionForward& args, Workers& workers);
void attention_backward(const AttentionBackward& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
