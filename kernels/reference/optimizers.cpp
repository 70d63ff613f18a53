#include "kernels/optimizers.h"

#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {
namespace {

/// Calls rule(g, p, m, v) for each element, in double.
template <class Rule>
void update(const OptimizerStep& args, const Rule& rule) {
  const StepScalars& s = *args.scalars;
  if (s.found_inf != 0) return;
  for (std::size_t i = 0; i < args.count; ++i) {
    const double gradient = load(args.gradient_dtype, args.gradient, i) * s.inverse_loss_scale * s.clip_factor;
    double parameter = args.parameter[i];
    double first = args.first_moment[i];
    double second = args.second_moment != nullptr ? args.second_moment[i] : 0;
    rule(gradient, parameter, first, second);
    args.parameter[i] = static_cast<float>(parameter);
    args.first_moment[i] = static_cast<float>(first);
    if (args.second_moment != nullptr) args.second_moment[i] = static_cast<float>(second);
    if (args.parameter_copy != nullptr) store(args.copy_dtype, args.parameter_copy, i, args.parameter[i]);
  }
}

double sign(double x) {
  return static_cast<double>(x > 0) - static_cast<double>(x < 0);
}

}  // namespace

void adam(const OptimizerStep& args) {
  const StepScalars& s = *args.scalars;
  update(args, [&s](double g, double& p, double& m, double& v) {
    g += s.weight_decay * p;
    m += (1 - s.beta1) * (g - m);
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    p -= s.learning_rate / s.bias_correction1 * (m / (std::sqrt(v) / std::sqrt(s.bias_correction2) + s.epsilon));
  });
}

void sgd(const OptimizerStep& args) {
  const StepScalars& s = *args.scalars;
  update(args, [&s](double g, double& p, double& m, double&) {
    g += s.weight_decay * p;
    m = s.momentum * m + g;
    p -= s.learning_rate * (s.nesterov != 0 ? g + s.momentum * m : m);
  });
}

void lion(const OptimizerStep& args) {
  const StepScalars& s = *args.scalars;
  update(args, [&s](double g, double& p, double& m, double&) {
    p *= 1 - s.learning_rate * s.weight_decay;
    p -= s.learning_rate * sign(s.beta1 * m + (1 - s.beta1) * g);
    m = s.beta2 * m + (1 - s.beta2) * g;
  });
}

void adagrad(const OptimizerStep& args) {
  const StepScalars& s = *args.scalars;
  update(args, [&s](double g, double& p, double& m, double&) {
    g += s.weight_decay * p;
    m += g * g;
    p -= s.learning_rate * g / (std::sqrt(m) + s.epsilon);
  });
}

}  // namespace zeroplan::kernels::reference
