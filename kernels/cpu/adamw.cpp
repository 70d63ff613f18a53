#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/adamw.h"

#include <cmath>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void update_as(const AdamW& args, IndexRange range) {
  const F32 d;
  const StepScalars& s = *args.scalars;
  // Rounded once from double, as PyTorch rounds its Python scalars.
  const VF keep_factor = hn::Set(d, static_cast<float>(1 - s.learning_rate * s.weight_decay));
  const VF gradient_factor = hn::Set(d, static_cast<float>(s.inverse_loss_scale * s.clip_factor));
  const VF blend1 = hn::Set(d, static_cast<float>(1 - s.beta1));
  const VF beta2 = hn::Set(d, static_cast<float>(s.beta2));
  const VF blend2 = hn::Set(d, static_cast<float>(1 - s.beta2));
  const VF root = hn::Set(d, static_cast<float>(std::sqrt(s.bias_correction2)));
  const VF epsilon = hn::Set(d, static_cast<float>(s.epsilon));
  const VF step = hn::Set(d, static_cast<float>(s.learning_rate / s.bias_correction1));
  const T* gradient = static_cast<const T*>(args.gradient);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF g = hn::Mul(load(gradient + i, size), gradient_factor);
    VF p = load(args.parameter + i, size);
    VF m = load(args.first_moment + i, size);
    VF v = load(args.second_moment + i, size);
    if (args.decay) p = hn::Mul(p, keep_factor);
    m = hn::MulAdd(blend1, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Mul(blend2, g), g, hn::Mul(v, beta2));
    const VF denominator = hn::Add(hn::Div(hn::Sqrt(v), root), epsilon);
    p = hn::NegMulAdd(step, hn::Div(m, denominator), p);
    store(p, args.parameter + i, size);
    store(m, args.first_moment + i, size);
    store(v, args.second_moment + i, size);
    if (args.parameter_copy != nullptr) store_as(args.copy_dtype, p, args.parameter_copy, i, size);
  });
}

void adamw_range(const AdamW& args, IndexRange range) {
  with_storage(args.gradient_dtype, [&]<class T>(T) { update_as<T>(args, range); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(adamw_range);

}  // namespace

void adamw(const AdamW& args, Workers& workers) {
  require_storage(args.gradient_dtype);
  require_storage(args.copy_dtype);
  if (args.scalars->found_inf != 0) return;
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(adamw_range)(args, range);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
