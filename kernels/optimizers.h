// The elementwise optimizers besides AdamW: Adam, SGD, Lion, Adagrad. All do nothing if scalars->found_inf. Otherwise g
// = gradient x inverse_loss_scale x clip_factor, and elementwise, with the scalars' lr, wd, beta1, ...:
//   adam     torch.optim.Adam (DeepSpeed's adam_w_mode false): g += wd p; m += (1 - beta1)(g - m);
//            v = beta2 v + (1 - beta2) g^2; p -= lr / bias_correction1 x m / (sqrt(v) / sqrt(bias_correction2) +
//            epsilon)
//   sgd      torch.optim.SGD, dampening 0: g += wd p; m = momentum m + g; p -= lr (nesterov ? g + momentum m : m)
//   lion     Chen et al., arXiv 2302.06675, algorithm 2: p *= 1 - lr wd; p -= lr sign(beta1 m + (1 - beta1) g), sign(0)
//   =
//            0; m = beta2 m + (1 - beta2) g
//   adagrad  torch.optim.Adagrad, lr_decay 0, initial accumulator 0: g += wd p; m += g^2; p -= lr g / (sqrt(m) +
//   epsilon)
// A range may be cut anywhere without changing a bit. An element that is zero in all operands stays zero.
#pragma once

#include <cstddef>

#include "kernels/step_scalars.h"
#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// The operands of all of them.
struct OptimizerStep {
  DType gradient_dtype = DType::kFp32;
  std::size_t count = 0;
  float* parameter = nullptr;
  const void* gradient = nullptr;
  float* first_moment = nullptr;   ///< m
  float* second_moment = nullptr;  ///< v; adam alone has it
  DType copy_dtype = DType::kBf16;
  void* parameter_copy = nullptr;  ///< the parameter rounded to `copy_dtype` for the next forward pass, or none
  const StepScalars* scalars = nullptr;
};

namespace reference {
void adam(const OptimizerStep& args);
void sgd(const OptimizerStep& args);
void lion(const OptimizerStep& args);
void adagrad(const OptimizerStep& args);
}  // namespace reference

namespace cpu {
void adam(const OptimizerStep& args, Workers& workers);
void sgd(const OptimizerStep& args, Workers& workers);
void lion(const OptimizerStep& args, Workers& workers);
void adagrad(const OptimizerStep& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
