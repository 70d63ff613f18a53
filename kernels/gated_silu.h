// Gated SiLU (SwiGLU without its projections).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// y = gate sigmoid(gate) up, elementwise.
struct GatedSiluForward {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  const void* gate = nullptr;
  const void* up = nullptr;
  void* y = nullptr;  ///< may be gate or up
};

/// d_up = d_y silu(gate); d_gate = d_y up silu'(gate).
struct GatedSiluBackward {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  const void* d_y = nullptr;
  const void* gate = nullptr;
  const void* up = nullptr;
  void* d_gate = nullptr;  ///< may be any input
  void* d_up = nullptr;    ///< may be any input, but not d_gate
};

namespace reference {
void gated_silu_forward(const GatedSiluForward& args);
void gated_silu_backward(const GatedSiluBackward& args);
}  // namespace reference

namespace cpu {
void gated_silu_forward(const GatedSiluForward& args, Workers& workers);
void gated_silu_backward(const GatedSiluBackward& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
