// AdamW in one fused pass: 28 bytes an element with fp32 gradients, and 2 more with a 16-bit copy.
#include "kernels/adamw.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/update.cuh"

namespace zeroplan::kernels::cuda {
namespace {

struct AdamWRule {
  static constexpr bool kGradient = true, kParameter = true, kSecond = true, kMoments = true;
  struct Choice {
    bool decay;
  };
  float gradient_factor, keep, blend1, beta2, blend2, step, root_factor, epsilon;

  __device__ void set(const StepScalars& s, Choice choice) {
    gradient_factor = static_cast<float>(s.inverse_loss_scale * s.clip_factor);
    keep = choice.decay ? static_cast<float>(1 - s.learning_rate * s.weight_decay) : 1.0f;
    blend1 = static_cast<float>(1 - s.beta1);
    beta2 = static_cast<float>(s.beta2);
    blend2 = static_cast<float>(1 - s.beta2);
    step = static_cast<float>(s.learning_rate / s.bias_correction1);
    root_factor = static_cast<float>(1 / sqrt(s.bias_correction2));
    epsilon = static_cast<float>(s.epsilon);
  }
  __device__ void apply(float gradient, float& p, float& m, float& v) const {
    const float g = gradient * gradient_factor;
    p *= keep;
    m = fmaf(blend1, g - m, m);
    v = fmaf(blend2 * g, g, beta2 * v);
    p = fmaf(-step, m / fmaf(sqrtf(v), root_factor, epsilon), p);
  }
};

}  // namespace

void enqueue(const AdamW& args, const Launch& launch) {
  enqueue_update<AdamWRule>({.count = args.count,
                             .gradient_dtype = args.gradient_dtype,
                             .gradient = args.gradient,
                             .parameter = args.parameter,
                             .first = args.first_moment,
                             .second = args.second_moment,
                             .copy_dtype = args.copy_dtype,
                             .copy = args.parameter_copy,
                             .scalars = args.scalars},
                            {args.decay}, launch, "adamw");
}

}  // namespace zeroplan::kernels::cuda
