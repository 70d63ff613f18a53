// AdamW over a flat range, in the order of operations of torch.optim.AdamW.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/step_scalars.h"
#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// Does nothing if scalars->found_inf. Otherwise, elementwise, with g = gradient x inverse_loss_scale x clip_factor:
/// p *= 1 - lr wd (if `decay`); m += (1 - beta1)(g - m); v = beta2 v + (1 - beta2) g^2;
/// p -= lr / bias_correction1 x m / (sqrt(v) / sqrt(bias_correction2) + epsilon).
/// A range may be cut anywhere without changing a bit.
struct AdamW {
  DType gradient_dtype = DType::kFp32;
  std::size_t count = 0;
  bool decay = true;  ///< whether weight decay applies to this range
  float* parameter = nullptr;
  const void* gradient = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  DType copy_dtype = DType::kBf16;
  void* parameter_copy = nullptr;  ///< the parameter rounded to `copy_dtype` for the next forward pass, or none
  const StepScalars* scalars = nullptr;
};

namespace reference {
void adamw(const AdamW& args);
}  // namespace reference

namespace cpu {
void adamw(const AdamW& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
