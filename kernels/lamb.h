// LAMB in three passes, as DeepSpeed's FusedLamb computes it (csrc/lamb/fused_lamb_cuda_kernel.cu, mode 1, with bias
// correction): per tensor
//   m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, u = m / (sqrt(v) + epsilon) + wd p
//   ratio = |p| / |u| within [min_coeff, max_coeff], 1 if either norm is 0
//   p -= lr sqrt(bias_correction2) / bias_correction1 x ratio x u
// u has no memory of its own: it follows from m, v and p, of which none changes between the passes. (The algorithm of
// You et al., arXiv 1904.00962, corrects m and v before u is formed: its ratio differs where the weight decay does not
// vanish.)
#pragma once

#include <cstddef>

#include "kernels/step_scalars.h"
#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// Pass 1: the moments. Does nothing if scalars->found_inf. A range may be cut anywhere without changing a bit.
struct LambMoments {
  DType gradient_dtype = DType::kFp32;
  std::size_t count = 0;
  const void* gradient = nullptr;  ///< x inverse_loss_scale x clip_factor is g
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  const StepScalars* scalars = nullptr;
};

/// Pass 2: the sums of squares of p and u over a part of one tensor, in double, over a tree that depends on `count`
/// alone.
struct LambNorms {
  std::size_t count = 0;
  const float* parameter = nullptr;
  const float* first_moment = nullptr;
  const float* second_moment = nullptr;
  const StepScalars* scalars = nullptr;
};

/// Sums of squares of a tensor or a part of it.
struct LambSums {
  double parameter = 0;
  double direction = 0;
};

/// Pass 3: the parameters of a part of one tensor. Does nothing if scalars->found_inf. May be cut anywhere.
struct LambUpdate {
  std::size_t count = 0;
  float* parameter = nullptr;
  const float* first_moment = nullptr;
  const float* second_moment = nullptr;
  const double* ratio = nullptr;  ///< of the tensor
  DType copy_dtype = DType::kBf16;
  void* parameter_copy = nullptr;  ///< the parameter rounded to `copy_dtype` for the next forward pass, or none
  const StepScalars* scalars = nullptr;
};

/// The factor between |p| and |u| of a whole tensor.
double lamb_ratio(const StepScalars& scalars, const LambSums& sums);

namespace reference {
void lamb_moments(const LambMoments& args);
LambSums lamb_norms(const LambNorms& args);
void lamb_update(const LambUpdate& args);
}  // namespace reference

namespace cpu {
void lamb_moments(const LambMoments& args, Workers& workers);
LambSums lamb_norms(const LambNorms& args, Workers& workers);
void lamb_update(const LambUpdate& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
