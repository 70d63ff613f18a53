#include "kernels/lamb.h"

#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {
namespace {

double direction(const StepScalars& s, double parameter, double first, double second) {
  return first / (std::sqrt(second) + s.epsilon) + s.weight_decay * parameter;
}

}  // namespace

void lamb_moments(const LambMoments& args) {
  const StepScalars& s = *args.scalars;
  if (s.found_inf != 0) return;
  for (std::size_t i = 0; i < args.count; ++i) {
    const double g = load(args.gradient_dtype, args.gradient, i) * s.inverse_loss_scale * s.clip_factor;
    args.first_moment[i] = static_cast<float>(s.beta1 * args.first_moment[i] + (1 - s.beta1) * g);
    args.second_moment[i] = static_cast<float>(s.beta2 * args.second_moment[i] + (1 - s.beta2) * g * g);
  }
}

LambSums lamb_norms(const LambNorms& args) {
  LambSums sums;
  for (std::size_t i = 0; i < args.count; ++i) {
    const double p = args.parameter[i];
    const double u = direction(*args.scalars, p, args.first_moment[i], args.second_moment[i]);
    sums.parameter += p * p;
    sums.direction += u * u;
  }
  return sums;
}

void lamb_update(const LambUpdate& args) {
  const StepScalars& s = *args.scalars;
  if (s.found_inf != 0) return;
  const double step = s.learning_rate * std::sqrt(s.bias_correction2) / s.bias_correction1 * *args.ratio;
  for (std::size_t i = 0; i < args.count; ++i) {
    const double p = args.parameter[i];
    args.parameter[i] = static_cast<float>(p - step * direction(s, p, args.first_moment[i], args.second_moment[i]));
    if (args.parameter_copy != nullptr) store(args.copy_dtype, args.parameter_copy, i, args.parameter[i]);
  }
}

}  // namespace zeroplan::kernels::reference
