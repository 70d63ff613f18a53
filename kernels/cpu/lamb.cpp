#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/lamb.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/lamb.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Rounded once from double.
HWY_INLINE VF spread(double value) {
  return hn::Set(F32(), static_cast<float>(value));
}

template <class T>
void moments_as(const LambMoments& args, IndexRange range) {
  const StepScalars& s = *args.scalars;
  const VF gradient_factor = spread(s.inverse_loss_scale * s.clip_factor);
  const VF beta1 = spread(s.beta1);
  const VF blend1 = spread(1 - s.beta1);
  const VF beta2 = spread(s.beta2);
  const VF blend2 = spread(1 - s.beta2);
  const T* gradient = static_cast<const T*>(args.gradient);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF g = hn::Mul(load(gradient + i, size), gradient_factor);
    const VF m = load(args.first_moment + i, size);
    const VF v = load(args.second_moment + i, size);
    store(hn::MulAdd(blend1, g, hn::Mul(beta1, m)), args.first_moment + i, size);
    store(hn::MulAdd(hn::Mul(blend2, g), g, hn::Mul(beta2, v)), args.second_moment + i, size);
  });
}

/// u of one vector: the same bits in the passes that need it.
class Direction {
 public:
  explicit Direction(const StepScalars& s) : epsilon_(spread(s.epsilon)), decay_(spread(s.weight_decay)) {}
  HWY_INLINE VF of(VF p, VF m, VF v) const { return hn::MulAdd(decay_, p, hn::Div(m, hn::Add(hn::Sqrt(v), epsilon_))); }

 private:
  VF epsilon_, decay_;
};

/// Adds the squares of a vector to two vectors of partial sums in double.
HWY_INLINE void add_squares(VF x, VD (&sum)[2]) {
  const F64 d64;
  const hn::Rebind<float, F64> d32;
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(x, F32(), lanes);
  for (std::size_t part = 0; part * hn::Lanes(d64) < hn::Lanes(F32()); ++part) {
    const VD wide = hn::PromoteTo(d64, hn::Load(d32, lanes + part * hn::Lanes(d64)));
    sum[part % 2] = hn::MulAdd(wide, wide, sum[part % 2]);
  }
}

LambSums norms_range(const LambNorms& args, IndexRange range) {
  const F64 d64;
  const Direction direction(*args.scalars);
  VD of_parameter[2] = {hn::Zero(d64), hn::Zero(d64)};
  VD of_direction[2] = {hn::Zero(d64), hn::Zero(d64)};
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    const VF p = load(args.parameter + i, size);
    const VF u = direction.of(p, load(args.first_moment + i, size), load(args.second_moment + i, size));
    add_squares(p, of_parameter);
    add_squares(keep(u, hn::Zero(F32()), size), of_direction);
  });
  return {hn::GetLane(hn::SumOfLanes(d64, hn::Add(of_parameter[0], of_parameter[1]))),
          hn::GetLane(hn::SumOfLanes(d64, hn::Add(of_direction[0], of_direction[1])))};
}

void update_range(const LambUpdate& args, IndexRange range) {
  const StepScalars& s = *args.scalars;
  const Direction direction(s);
  const VF step = spread(s.learning_rate * std::sqrt(s.bias_correction2) / s.bias_correction1 * *args.ratio);
  for_vectors(range.begin, range.end, [&](std::size_t i, auto size) HWY_ATTR {
    VF p = load(args.parameter + i, size);
    p = hn::NegMulAdd(step, direction.of(p, load(args.first_moment + i, size), load(args.second_moment + i, size)), p);
    store(p, args.parameter + i, size);
    if (args.parameter_copy != nullptr) store_as(args.copy_dtype, p, args.parameter_copy, i, size);
  });
}

void moments_range(const LambMoments& args, IndexRange range) {
  with_storage(args.gradient_dtype, [&]<class T>(T) { moments_as<T>(args, range); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels {
namespace cpu {
namespace {

HWY_EXPORT(moments_range);
HWY_EXPORT(norms_range);
HWY_EXPORT(update_range);

}  // namespace

void lamb_moments(const LambMoments& args, Workers& workers) {
  require_storage(args.gradient_dtype);
  if (args.scalars->found_inf != 0) return;
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(moments_range)(args, range);
  });
}

LambSums lamb_norms(const LambNorms& args, Workers& workers) {
  // The leaves depend on the count alone; their sums are added in order.
  constexpr std::size_t kLeaves = 256;
  const std::size_t leaf = (args.count / kLeaves / kElementGranule + 1) * kElementGranule;
  const std::size_t leaves = (args.count + leaf - 1) / leaf;
  LambSums partial[kLeaves];
  workers.run_ranges(leaves, 1, [&](IndexRange range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      partial[i] = HWY_DYNAMIC_DISPATCH(norms_range)(args, IndexRange{i * leaf, std::min(args.count, (i + 1) * leaf)});
    }
  });
  LambSums sums;
  for (std::size_t i = 0; i < leaves; ++i) {
    sums.parameter += partial[i].parameter;
    sums.direction += partial[i].direction;
  }
  return sums;
}

void lamb_update(const LambUpdate& args, Workers& workers) {
  require_storage(args.copy_dtype);
  if (args.scalars->found_inf != 0) return;
  workers.run_ranges(args.count, kElementGranule, [&](IndexRange range) {
    HWY_DYNAMIC_DISPATCH(update_range)(args, range);
  });
}

}  // namespace cpu

double lamb_ratio(const StepScalars& scalars, const LambSums& sums) {
  if (sums.parameter == 0 || sums.direction == 0) return 1;
  const double ratio = std::sqrt(sums.parameter) / std::sqrt(sums.direction);
  return std::max(scalars.min_coeff, std::min(scalars.max_coeff, ratio));
}

}  // namespace zeroplan::kernels
#endif
