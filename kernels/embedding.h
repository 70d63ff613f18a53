// Token and position embedding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"
#include "models/core/embedding_workspace.h"

namespace zeroplan::kernels {

/// out [tokens, width] = token_table[ids] (+ position_table[position]), where the position is the index within the
/// sequence. The caller has checked 0 <= id < vocabulary and sequence_length <= rows of the position table.
struct EmbeddingForward {
  DType dtype = DType::kFp32;
  std::size_t tokens = 0;
  std::size_t width = 0;
  std::size_t sequence_length = 0;
  const std::int32_t* ids = nullptr;     ///< [tokens]
  const void* token_table = nullptr;     ///< [vocabulary, width]
  const void* position_table = nullptr;  ///< [positions, width], or none
  void* out = nullptr;
};

/// Scatters d_out into the tables; tokens are added in order, so equal inputs give equal bits. 16-bit tables get the
/// sum of this call in fp32, rounded once.
struct EmbeddingBackward {
  DType dtype = DType::kFp32;           ///< of d_out
  DType gradient_dtype = DType::kFp32;  ///< of d_token_table and d_position_table
  std::size_t tokens = 0;
  std::size_t width = 0;
  std::size_t sequence_length = 0;
  std::size_t vocabulary = 0;
  std::size_t positions = 0;
  const std::int32_t* ids = nullptr;
  const void* d_out = nullptr;       ///< [tokens, width]
  void* d_token_table = nullptr;     ///< [vocabulary, width]
  void* d_position_table = nullptr;  ///< [positions, width], or none
  bool accumulate = false;           ///< adds to d_token_table; otherwise unused rows become zero
  bool accumulate_position = false;  ///< likewise for d_position_table
  void* workspace = nullptr;         ///< embedding_backward_workspace_bytes; none with fp32 gradients; cpu only
};

namespace reference {
void embedding_forward(const EmbeddingForward& args);
void embedding_backward(const EmbeddingBackward& args);
}  // namespace reference

namespace cpu {
void embedding_forward(const EmbeddingForward& args, Workers& workers);
void embedding_backward(const EmbeddingBackward& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
