// GELU in its tanh form, as gpt2 uses it ("gelu_new").
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// y = x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), elementwise.
struct GeluForward {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x
};

/// d_x = d_y dy/dx.
struct GeluBackward {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  const void* d_y = nullptr;
  const void* x = nullptr;
  void* d_x = nullptr;  ///< may be d_y or x
};

namespace reference {
void gelu_forward(const GeluForward& args);
void gelu_backward(const GeluBackward& args);
}  // namespace reference

namespace cpu {
void gelu_forward(const GeluForward& args, Workers& workers);
void gelu_backward(const GeluBackward& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
