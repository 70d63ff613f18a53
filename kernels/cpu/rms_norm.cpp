#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/rms_norm.h"

#include <cmath>

#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void forward_as(const RmsNormForward& args, IndexRange rows) {
  const F32 d;
  const T* weight = static_cast<const T*>(args.weight);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * args.width;
    T* y = static_cast<T*>(args.y) + r * args.width;
    const float squares = sum_over(args.width, [&](std::size_t c, auto size) HWY_ATTR {
      const VF value = load(x + c, size);
      return hn::Mul(value, value);
    });
    const double mean_square = static_cast<double>(squares) / static_cast<double>(args.width);
    const float rstd = static_cast<float>(1 / std::sqrt(mean_square + args.epsilon));
    args.rstd[r] = rstd;
    const VF rstd_lanes = hn::Set(d, rstd);
    for_vectors(0, args.width, [&](std::size_t c, auto size) HWY_ATTR {
      store(hn::Mul(hn::Mul(load(x + c, size), rstd_lanes), load(weight + c, size)), y + c, size);
    });
  }
}

template <class T>
void backward_rows_as(const RmsNormBackward& args, IndexRange rows) {
  const F32 d;
  const T* weight = static_cast<const T*>(args.weight);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * args.width;
    const T* d_y = static_cast<const T*>(args.d_y) + r * args.width;
    T* d_x = static_cast<T*>(args.d_x) + r * args.width;
    const VF rstd = hn::Set(d, args.rstd[r]);
    const auto scaled = [&](std::size_t c, auto size)
                            HWY_ATTR { return hn::Mul(load(d_y + c, size), load(weight + c, size)); };
    const auto normal = [&](std::size_t c, auto size) HWY_ATTR { return hn::Mul(load(x + c, size), rstd); };
    const float sum = sum_over(
        args.width, [&](std::size_t c, auto size) HWY_ATTR { return hn::Mul(scaled(c, size), normal(c, size)); });
    const VF mean_g_normal = hn::Set(d, sum / static_cast<float>(args.width));
    for_vectors(0, args.width, [&](std::size_t c, auto size) HWY_ATTR {
      const VF value = hn::Mul(rstd, hn::NegMulAdd(normal(c, size), mean_g_normal, scaled(c, size)));
      store(args.accumulate ? hn::Add(load(d_x + c, size), value) : value, d_x + c, size);
    });
  }
}

template <class T, class Gradient>
void backward_columns_as(const RmsNormBackward& args, IndexRange columns) {
  const F32 d;
  const T* x = static_cast<const T*>(args.x);
  const T* d_y = static_cast<const T*>(args.d_y);
  sum_columns(args.rows, columns, static_cast<Gradient*>(args.d_weight), args.accumulate_gradient,
              [&](std::size_t r, std::size_t c, auto size) HWY_ATTR {
                const VF normal = hn::Mul(load(x + r * args.width + c, size), hn::Set(d, args.rstd[r]));
                return hn::Mul(load(d_y + r * args.width + c, size), normal);
              });
}

void rms_norm_rows(const RmsNormForward& args, IndexRange rows) {
  with_storage(args.dtype, [&]<class T>(T) { forward_as<T>(args, rows); });
}
void rms_norm_backward_rows(const RmsNormBackward& args, IndexRange rows) {
  with_storage(args.dtype, [&]<class T>(T) { backward_rows_as<T>(args, rows); });
}
void rms_norm_backward_columns(const RmsNormBackward& args, IndexRange columns) {
  with_result(args.dtype, args.gradient_dtype,
              [&]<class T, class Gradient>(T, Gradient) { backward_columns_as<T, Gradient>(args, columns); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);
HWY_EXPORT(rms_norm_backward_columns);

}  // namespace

void rms_norm_forward(const RmsNormForward& args, Workers& workers) {
  require_storage(args.dtype);
  ZP_CHECK(args.width > 0);
  workers.run_ranges(args.rows, 4, [&](IndexRange rows) { HWY_DYNAMIC_DISPATCH(rms_norm_rows)(args, rows); });
}

void rms_norm_backward(const RmsNormBackward& args, Workers& workers) {
  require_result(args.gradient_dtype, args.dtype);
  ZP_CHECK(args.width > 0);
  workers.run_ranges(args.rows, 4, [&](IndexRange rows) { HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)(args, rows); });
  workers.run_ranges(args.width, kLineElements, [&](IndexRange columns) {
    HWY_DYNAMIC_DISPATCH(rms_norm_backward_columns)(args, columns);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
