#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizers.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/optimizers.h"

#include <cmath>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Rounded once from double, as PyTorch rounds its Python scalars.
HWY_INLINE VF spread(double value) {
  return hn::Set(F32(), static_cast<float>(value));
}

// A rule changes parameter and moments of one vector. `v` is unused where an optimizer has one moment.

struct Adam {
  static constexpr bool kHasSecond = true;
  explicit Adam(const StepScalars& s)
      : decay(spread(s.weight_decay)),
        blend1(spread(1 - s.beta1)),
        beta2(spread(s.beta2)),
        blend2(spread(1 - s.beta2)),
        root(spread(std::sqrt(s.bias_correction2))),
        epsilon(spread(s.epsilon)),
        step(spread(s.learning_rate / s.bias_correction1)) {}
  HWY_INLINE void update(VF g, VF& p, VF& m, VF& v) const {
    g = hn::MulAdd(decay, p, g);
    m = hn::MulAdd(blend1, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Mul(blend2, g), g, hn::Mul(v, beta2));
    p = hn::NegMulAdd(step, hn::Div(m, hn::Add(hn::Div(hn::Sqrt(v), root), epsilon)), p);
  }
  VF decay, blend1, beta2, blend2, root, epsilon, step;
};

struct Sgd {
  static constexpr bool kHasSecond = false;
  explicit Sgd(const StepScalars& s)
      : decay(spread(s.weight_decay)),
        momentum(spread(s.momentum)),
        step(spread(s.learning_rate)),
        is_nesterov(s.nesterov != 0) {}
  HWY_INLINE void update(VF g, VF& p, VF& m, VF&) const {
    g = hn::MulAdd(decay, p, g);
    m = hn::MulAdd(momentum, m, g);
    p = hn::NegMulAdd(step, is_nesterov ? hn::MulAdd(momentum, m, g) : m, p);
  }
  VF decay, momentum, step;
  bool is_nesterov;
};

struct Lion {
  static constexpr bool kHasSecond = false;
  explicit Lion(const StepScalars& s)
      : keep_factor(spread(1 - s.learning_rate * s.weight_decay)),
        beta1(spread(s.beta1)),
        blend1(spread(1 - s.beta1)),
        beta2(spread(s.beta2)),
        blend2(spread(1 - s.beta2)),
        step(spread(s.learning_rate)) {}
  HWY_INLINE void update(VF g, VF& p, VF& m, VF&) const {
    const VF zero = hn::Zero(F32());
    const VF direction = hn::MulAdd(blend1, g, hn::Mul(beta1, m));
    const VF up = hn::IfThenElseZero(hn::Lt(direction, zero), step);
    const VF down = hn::IfThenElseZero(hn::Gt(direction, zero), step);
    p = hn::Add(hn::Mul(p, keep_factor), hn::Sub(up, down));
    m = hn::MulAdd(blend2, g, hn::Mul(beta2, m));
  }
  VF keep_factor, beta1, blend1, beta2, blend2, step;
};

struct Adagrad {
  static constexpr bool kHasSecond = false;
  explicit Adagrad(const StepScalars& s)
      : decay(spread(s.weight_decay)), epsilon(spread(s.epsilon)), step(spread(s.learning_rate)) {}
  HWY_INLINE void update(VF g, VF& p, VF& m, VF&) const {
    g = hn::MulAdd(decay, p, g);
    m = hn::MulAdd(g, g, m);
    p = hn::NegMulAdd(step, hn::Div(g, hn::Add(hn::Sqrt(m), epsilon)), p);
  }
  VF decay, epsilon, step;
};

template <class Rule, class T>
void update_as(const OptimizerStep& args, IndexRange range) {
  const Rule rule(*args.scalars);
  const VF gradient_factor = spread(args.scalars->inverse_loss_scale * args.scalars->clip_factor);
  const T* gradient = static_cast<const T*>(args.gradient);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF g = hn::Mul(load(gradient + i, size), gradient_factor);
    VF p = load(args.parameter + i, size);
    VF m = load(args.first_moment + i, size);
    VF v = hn::Zero(F32());
    if constexpr (Rule::kHasSecond) v = load(args.second_moment + i, size);
    rule.update(g, p, m, v);
    store(p, args.parameter + i, size);
    store(m, args.first_moment + i, size);
    if constexpr (Rule::kHasSecond) store(v, args.second_moment + i, size);
    if (args.parameter_copy != nullptr) store_as(args.copy_dtype, p, args.parameter_copy, i, size);
  });
}

template <class Rule>
void update_range(const OptimizerStep& args, IndexRange range) {
  with_storage(args.gradient_dtype, [&]<class T>(T) { update_as<Rule, T>(args, range); });
}

void adam_range(const OptimizerStep& args, IndexRange range) {
  update_range<Adam>(args, range);
}
void sgd_range(const OptimizerStep& args, IndexRange range) {
  update_range<Sgd>(args, range);
}
void lion_range(const OptimizerStep& args, IndexRange range) {
  update_range<Lion>(args, range);
}
void adagrad_range(const OptimizerStep& args, IndexRange range) {
  update_range<Adagrad>(args, range);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(adam_range);
HWY_EXPORT(sgd_range);
HWY_EXPORT(lion_range);
HWY_EXPORT(adagrad_range);

template <class Range>
void run(const OptimizerStep& args, Workers& workers, const Range& update) {
  require_storage(args.gradient_dtype);
  require_storage(args.copy_dtype);
  if (args.scalars->found_inf != 0) return;
  workers.run_ranges(args.count, kElementGranule, update);
}

}  // namespace

void adam(const OptimizerStep& args, Workers& workers) {
  run(args, workers, [&args](IndexRange range) { HWY_DYNAMIC_DISPATCH(adam_range)(args, range); });
}

void sgd(const OptimizerStep& args, Workers& workers) {
  run(args, workers, [&args](IndexRange range) { HWY_DYNAMIC_DISPATCH(sgd_range)(args, range); });
}

void lion(const OptimizerStep& args, Workers& workers) {
  run(args, workers, [&args](IndexRange range) { HWY_DYNAMIC_DISPATCH(lion_range)(args, range); });
}

void adagrad(const OptimizerStep& args, Workers& workers) {
  run(args, workers, [&args](IndexRange range) { HWY_DYNAMIC_DISPATCH(adagrad_range)(args, range); });
}

}  // namespace zeroplan::kernels::cpu
#endif
