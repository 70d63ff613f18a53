#include "kernels/step_scalars.h"

#include <algorithm>
#include <cmath>

namespace zeroplan::kernels {

void finish_norm(StepScalars& scalars, std::span<const double> ordered_sums_of_squares) {
  double sum = 0;
  for (const double part : ordered_sums_of_squares) sum += part;
  scalars.found_inf = std::isfinite(sum) ? 0 : 1;
  scalars.grad_norm = std::sqrt(sum) * scalars.inverse_loss_scale;
  scalars.clip_factor = 1;
  if (scalars.max_grad_norm > 0 && scalars.found_inf == 0) {
    scalars.clip_factor = std::min(1.0, scalars.max_grad_norm / (scalars.grad_norm + 1e-6));
  }
}

void advance_optimizer_step(StepScalars& scalars) {
  if (scalars.found_inf != 0) return;
  ++scalars.optimizer_step;
  const double step = static_cast<double>(scalars.optimizer_step);
  scalars.bias_correction1 = 1 - std::pow(scalars.beta1, step);
  scalars.bias_correction2 = 1 - std::pow(scalars.beta2, step);
}

}  // namespace zeroplan::kernels
