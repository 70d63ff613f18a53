// Linear layer y = x W + b, with W in either layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"
#include "models/core/gemm_blocking.h"

namespace zeroplan::kernels {

/// y [tokens, out] = x [tokens, in] W + bias.
struct LinearForward {
  DType dtype = DType::kFp32;
  WeightLayout layout = WeightLayout::kOutIn;
  std::size_t tokens = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  const void* x = nullptr;
  std::size_t x_stride = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;  ///< [out], or none
  void* y = nullptr;
  std::size_t y_stride = 0;
  bool accumulate = false;    ///< adds to y
  void* workspace = nullptr;  ///< linear_forward_workspace_bytes
};

/// d_x [tokens, in] = d_y [tokens, out] W^T.
struct LinearBackwardInput {
  DType dtype = DType::kFp32;
  WeightLayout layout = WeightLayout::kOutIn;
  std::size_t tokens = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  const void* d_y = nullptr;
  std::size_t d_y_stride = 0;
  const void* weight = nullptr;
  void* d_x = nullptr;
  std::size_t d_x_stride = 0;
  bool accumulate = false;    ///< adds to d_x
  void* workspace = nullptr;  ///< linear_backward_input_workspace_bytes
};

/// d_weight = x^T d_y in the weight's layout, d_bias = column sums of d_y.
struct LinearBackwardWeight {
  DType dtype = DType::kFp32;           ///< of d_y and x
  DType gradient_dtype = DType::kFp32;  ///< of d_weight and d_bias
  WeightLayout layout = WeightLayout::kOutIn;
  std::size_t tokens = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  const void* d_y = nullptr;
  std::size_t d_y_stride = 0;
  const void* x = nullptr;
  std::size_t x_stride = 0;
  void* d_weight = nullptr;
  void* d_bias = nullptr;        ///< [out], or none
  bool accumulate = false;       ///< adds to d_weight
  bool accumulate_bias = false;  ///< adds to d_bias
  void* workspace = nullptr;     ///< linear_backward_weight_workspace_bytes
};

namespace reference {
void linear_forward(const LinearForward& args);
void linear_backward_input(const LinearBackwardInput& args);
void linear_backward_weight(const LinearBackwardWeight& args);
}  // namespace reference

namespace cpu {
void linear_forward(const LinearForward& args, Workers& workers);
void linear_backward_input(const LinearBackwardInput& args, Workers& workers);
void linear_backward_weight(const LinearBackwardWeight& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
