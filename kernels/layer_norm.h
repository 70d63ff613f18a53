// Layer norm over rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// y = (x - mean) rstd weight + bias for each row; rstd = 1 / sqrt(variance + epsilon), variance over width, not width
/// - 1.
struct LayerNormForward {
  DType dtype = DType::kFp32;
  std::size_t rows = 0;
  std::size_t width = 0;
  double epsilon = 1e-5;
  const void* x = nullptr;       ///< [rows, width]
  const void* weight = nullptr;  ///< [width]
  const void* bias = nullptr;    ///< [width], or none
  void* y = nullptr;             ///< [rows, width]; may be x
  float* mean = nullptr;         ///< [rows]
  float* rstd = nullptr;         ///< [rows]
};

/// With g = d_y weight and n = (x - mean) rstd: d_x = rstd (g - mean(g) - n mean(g n)), d_weight = sum over rows of d_y
/// n, d_bias = sum of d_y. Sums over rows run in a fixed order.
struct LayerNormBackward {
  DType dtype = DType::kFp32;           ///< of d_y, x, weight and d_x
  DType gradient_dtype = DType::kFp32;  ///< of d_weight and d_bias
  std::size_t rows = 0;
  std::size_t width = 0;
  const void* d_y = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* d_x = nullptr;               ///< [rows, width]; must not overlap d_y
  void* d_weight = nullptr;          ///< [width]
  void* d_bias = nullptr;            ///< [width], or none
  bool accumulate = false;           ///< adds to d_x (the residual stream's gradient)
  bool accumulate_gradient = false;  ///< adds to d_weight and d_bias
};

namespace reference {
void layer_norm_forward(const LayerNormForward& args);
void layer_norm_backward(const LayerNormBackward& args);
}  // namespace reference

namespace cpu {
void layer_norm_forward(const LayerNormForward& args, Workers& workers);
void layer_norm_backward(const LayerNormBackward& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
