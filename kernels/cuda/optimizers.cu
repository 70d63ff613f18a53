// Adam, SGD, Lion and Adagrad, each in one fused pass.
#include "kernels/cuda/operators.h"
#include "kernels/cuda/update.cuh"
#include "kernels/optimizers.h"

namespace zeroplan::kernels::cuda {
namespace {

struct NoChoice {};

/// g = gradient x inverse_loss_scale x clip_factor + wd p.
struct DecayedGradient {
  float factor, decay;
  __device__ void set(const StepScalars& s) {
    factor = static_cast<float>(s.inverse_loss_scale * s.clip_factor);
    decay = static_cast<float>(s.weight_decay);
  }
  __device__ float of(float gradient, float p) const { return fmaf(decay, p, gradient * factor); }
};

struct AdamRule {
  static constexpr bool kGradient = true, kParameter = true, kSecond = true, kMoments = true;
  using Choice = NoChoice;
  DecayedGradient decayed;
  float blend1, beta2, blend2, step, root_factor, epsilon;

  __device__ void set(const StepScalars& s, Choice) {
    decayed.set(s);
    blend1 = static_cast<float>(1 - s.beta1);
    beta2 = static_cast<float>(s.beta2);
    blend2 = static_cast<float>(1 - s.beta2);
    step = static_cast<float>(s.learning_rate / s.bias_correction1);
    root_factor = static_cast<float>(1 / sqrt(s.bias_correction2));
    epsilon = static_cast<float>(s.epsilon);
  }
  __device__ void apply(float gradient, float& p, float& m, float& v) const {
    const float g = decayed.of(gradient, p);
    m = fmaf(blend1, g - m, m);
    v = fmaf(blend2 * g, g, beta2 * v);
    p = fmaf(-step, m / fmaf(sqrtf(v), root_factor, epsilon), p);
  }
};

struct SgdRule {
  static constexpr bool kGradient = true, kParameter = true, kSecond = false, kMoments = true;
  using Choice = NoChoice;
  DecayedGradient decayed;
  float momentum, learning_rate;
  bool nesterov;

  __device__ void set(const StepScalars& s, Choice) {
    decayed.set(s);
    momentum = static_cast<float>(s.momentum);
    learning_rate = static_cast<float>(s.learning_rate);
    nesterov = s.nesterov != 0;
  }
  __device__ void apply(float gradient, float& p, float& m, float&) const {
    const float g = decayed.of(gradient, p);
    m = fmaf(momentum, m, g);
    p = fmaf(-learning_rate, nesterov ? fmaf(momentum, m, g) : m, p);
  }
};

struct LionRule {
  static constexpr bool kGradient = true, kParameter = true, kSecond = false, kMoments = true;
  using Choice = NoChoice;
  float gradient_factor, keep, learning_rate, beta1, blend1, beta2, blend2;

  __device__ void set(const StepScalars& s, Choice) {
    gradient_factor = static_cast<float>(s.inverse_loss_scale * s.clip_factor);
    keep = static_cast<float>(1 - s.learning_rate * s.weight_decay);
    learning_rate = static_cast<float>(s.learning_rate);
    beta1 = static_cast<float>(s.beta1);
    blend1 = static_cast<float>(1 - s.beta1);
    beta2 = static_cast<float>(s.beta2);
    blend2 = static_cast<float>(1 - s.beta2);
  }
  __device__ void apply(float gradient, float& p, float& m, float&) const {
    const float g = gradient * gradient_factor;
    p *= keep;
    const float direction = fmaf(beta1, m, blend1 * g);
    // A direction that is not a number leaves the parameter, as the comparisons of the reference do.
    const float sign = static_cast<float>(direction > 0.0f) - static_cast<float>(direction < 0.0f);
    p = fmaf(-learning_rate, sign, p);
    m = fmaf(beta2, m, blend2 * g);
  }
};

struct AdagradRule {
  static constexpr bool kGradient = true, kParameter = true, kSecond = false, kMoments = true;
  using Choice = NoChoice;
  DecayedGradient decayed;
  float learning_rate, epsilon;

  __device__ void set(const StepScalars& s, Choice) {
    decayed.set(s);
    learning_rate = static_cast<float>(s.learning_rate);
    epsilon = static_cast<float>(s.epsilon);
  }
  __device__ void apply(float gradient, float& p, float& m, float&) const {
    const float g = decayed.of(gradient, p);
    m = fmaf(g, g, m);
    p = fmaf(-learning_rate, g / (sqrtf(m) + epsilon), p);
  }
};

}  // namespace

void enqueue(ElementwiseOptimizer optimizer, const OptimizerStep& args, const Launch& launch) {
  const UpdateOperands operands{.count = args.count,
                                .gradient_dtype = args.gradient_dtype,
                                .gradient = args.gradient,
                                .parameter = args.parameter,
                                .first = args.first_moment,
                                .second = args.second_moment,
                                .copy_dtype = args.copy_dtype,
                                .copy = args.parameter_copy,
                                .scalars = args.scalars};
  switch (optimizer) {
    case ElementwiseOptimizer::kAdam:
      return enqueue_update<AdamRule>(operands, {}, launch, "adam");
    case ElementwiseOptimizer::kSgd:
      return enqueue_update<SgdRule>(operands, {}, launch, "sgd");
    case ElementwiseOptimizer::kLion:
      return enqueue_update<LionRule>(operands, {}, launch, "lion");
    case ElementwiseOptimizer::kAdagrad:
      return enqueue_update<AdagradRule>(operands, {}, launch, "adagrad");
  }
}

}  // namespace zeroplan::kernels::cuda
