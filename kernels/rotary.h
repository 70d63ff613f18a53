// Rotary position embedding in the half-split convention of Hugging Face: element i pairs with i + head_size / 2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// Rotates each head of x in place by the angles of its position (the index within the sequence).
struct Rotary {
  DType dtype = DType::kFp32;
  std::size_t tokens = 0;
  std::size_t heads = 0;
  std::size_t head_size = 0;  ///< even
  std::size_t sequence_length = 0;
  const float* table = nullptr;  ///< [positions, head_size]: head_size / 2 cosines, then as many sines
  void* x = nullptr;             ///< [tokens, heads x head_size]
  std::size_t x_stride = 0;
  bool inverse = false;  ///< rotates back: the backward pass
};

/// How a model stretches its positions; the numbers are those of `rope_scaling` in config.json.
enum class RotaryScaling { kNone, kLinear, kLlama3 };

/// Angles position / theta^(2 i / head_size), rescaled.
struct RotaryTable {
  std::size_t positions = 0;
  std::size_t head_size = 0;  ///< even
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1;                 ///< kLinear and kLlama3
  double low_frequency_factor = 1;   ///< kLlama3
  double high_frequency_factor = 4;  ///< kLlama3
  double original_positions = 8192;  ///< kLlama3: original_max_position_embeddings
  float* table = nullptr;            ///< [positions, head_size]
};

/// Fills the table, computed in double and rounded once.
void fill_rotary_table(const RotaryTable& args);

namespace reference {
void rotary(const Rotary& args);
}  // namespace reference

namespace cpu {
void rotary(const Rotary& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
