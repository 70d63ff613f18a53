#include "kernels/adamw.h"

#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void adamw(const AdamW& args) {
  const StepScalars& s = *args.scalars;
  if (s.found_inf != 0) return;
  for (std::size_t i = 0; i < args.count; ++i) {
    const double gradient = load(args.gradient_dtype, args.gradient, i) * s.inverse_loss_scale * s.clip_factor;
    double parameter = args.parameter[i];
    double first = args.first_moment[i];
    double second = args.second_moment[i];
    if (args.decay) parameter *= 1 - s.learning_rate * s.weight_decay;
    first += (1 - s.beta1) * (gradient - first);
    second = s.beta2 * second + (1 - s.beta2) * gradient * gradient;
    const double denominator = std::sqrt(second) / std::sqrt(s.bias_correction2) + s.epsilon;
    parameter -= s.learning_rate / s.bias_correction1 * (first / denominator);
    args.parameter[i] = static_cast<float>(parameter);
    args.first_moment[i] = static_cast<float>(first);
    args.second_moment[i] = static_cast<float>(second);
    if (args.parameter_copy != nullptr) store(args.copy_dtype, args.parameter_copy, i, args.parameter[i]);
  }
}

}  // namespace zeroplan::kernels::reference
