// RMS norm over rows, or over each head with rows = tokens x heads and width = head_size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// y = x rstd weight for each row; rstd = 1 / sqrt(mean(x^2) + epsilon).
struct RmsNormForward {
  DType dtype = DType::kFp32;
  std::size_t rows = 0;
  std::size_t width = 0;
  double epsilon = 1e-6;
  const void* x = nullptr;       ///< [rows, width]
  const void* weight = nullptr;  ///< [width]
  void* y = nullptr;             ///< [rows, width]; may be x
  float* rstd = nullptr;         ///< [rows]
};

/// With g = d_y weight and n = x rstd: d_x = rstd (g - n mean(g n)), d_weight = sum over rows of d_y n in a fixed
/// order.
struct RmsNormBackward {
  DType dtype = DType::kFp32;           ///< of d_y, x, weight and d_x
  DType gradient_dtype = DType::kFp32;  ///< of d_weight
  std::size_t rows = 0;
  std::size_t width = 0;
  const void* d_y = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* rstd = nullptr;
  void* d_x = nullptr;               ///< [rows, width]; must not overlap d_y
  void* d_weight = nullptr;          ///< [width]
  bool accumulate = false;           ///< adds to d_x
  bool accumulate_gradient = false;  ///< adds to d_weight
};

namespace reference {
void rms_norm_forward(const RmsNormForward& args);
void rms_norm_backward(const RmsNormBackward& args);
}  // namespace reference

namespace cpu {
void rms_norm_forward(const RmsNormForward& args, Workers& workers);
void rms_norm_backward(const RmsNormBackward& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
