#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/layer_norm.h"

#include <cmath>

#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void forward_as(const LayerNormForward& args, IndexRange rows) {
  const F32 d;
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  const float width = static_cast<float>(args.width);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * args.width;
    T* y = static_cast<T*>(args.y) + r * args.width;
    const float mean =
        sum_over(args.width, [&](std::size_t c, auto size) HWY_ATTR { return load(x + c, size); }) / width;
    const VF mean_lanes = hn::Set(d, mean);
    const float variance = sum_over(args.width,
                                    [&](std::size_t c, auto size) HWY_ATTR {
                                      const VF centred = hn::Sub(load(x + c, size), mean_lanes);
                                      return hn::Mul(centred, centred);
                                    }) /
                           width;
    const float rstd = static_cast<float>(1 / std::sqrt(static_cast<double>(variance) + args.epsilon));
    args.mean[r] = mean;
    args.rstd[r] = rstd;
    const VF rstd_lanes = hn::Set(d, rstd);
    for_vectors(0, args.width, [&](std::size_t c, auto size) HWY_ATTR {
      const VF normal = hn::Mul(hn::Sub(load(x + c, size), mean_lanes), rstd_lanes);
      const VF shift = bias == nullptr ? hn::Zero(d) : load(bias + c, size);
      store(hn::MulAdd(normal, load(weight + c, size), shift), y + c, size);
    });
  }
}

template <class T>
void backward_rows_as(const LayerNormBackward& args, IndexRange rows) {
  const F32 d;
  const T* weight = static_cast<const T*>(args.weight);
  const float width = static_cast<float>(args.width);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * args.width;
    const T* d_y = static_cast<const T*>(args.d_y) + r * args.width;
    T* d_x = static_cast<T*>(args.d_x) + r * args.width;
    const VF mean = hn::Set(d, args.mean[r]);
    const VF rstd = hn::Set(d, args.rstd[r]);
    const auto scaled = [&](std::size_t c, auto size)
                            HWY_ATTR { return hn::Mul(load(d_y + c, size), load(weight + c, size)); };
    const auto normal = [&](std::size_t c, auto size)
                            HWY_ATTR { return hn::Mul(hn::Sub(load(x + c, size), mean), rstd); };
    const VF mean_g = hn::Set(d, sum_over(args.width, scaled) / width);
    const VF mean_g_normal = hn::Set(d, sum_over(args.width, [&](std::size_t c, auto size) HWY_ATTR {
                                          return hn::Mul(scaled(c, size), normal(c, size));
                                        }) / width);
    for_vectors(0, args.width, [&](std::size_t c, auto size) HWY_ATTR {
      const VF inner = hn::NegMulAdd(normal(c, size), mean_g_normal, hn::Sub(scaled(c, size), mean_g));
      const VF value = hn::Mul(rstd, inner);
      store(args.accumulate ? hn::Add(load(d_x + c, size), value) : value, d_x + c, size);
    });
  }
}

template <class T, class Gradient>
void backward_columns_as(const LayerNormBackward& args, IndexRange columns) {
  const F32 d;
  const T* x = static_cast<const T*>(args.x);
  const T* d_y = static_cast<const T*>(args.d_y);
  sum_columns(args.rows, columns, static_cast<Gradient*>(args.d_weight), args.accumulate_gradient,
              [&](std::size_t r, std::size_t c, auto size) HWY_ATTR {
                const VF centred = hn::Sub(load(x + r * args.width + c, size), hn::Set(d, args.mean[r]));
                return hn::Mul(load(d_y + r * args.width + c, size), hn::Mul(centred, hn::Set(d, args.rstd[r])));
              });
  if (args.d_bias == nullptr) return;
  sum_columns(args.rows, columns, static_cast<Gradient*>(args.d_bias), args.accumulate_gradient,
              [&](std::size_t r, std::size_t c, auto size) HWY_ATTR { return load(d_y + r * args.width + c, size); });
}

void layer_norm_rows(const LayerNormForward& args, IndexRange rows) {
  with_storage(args.dtype, [&]<class T>(T) { forward_as<T>(args, rows); });
}
void layer_norm_backward_rows(const LayerNormBackward& args, IndexRange rows) {
  with_storage(args.dtype, [&]<class T>(T) { backward_rows_as<T>(args, rows); });
}
void layer_norm_backward_columns(const LayerNormBackward& args, IndexRange columns) {
  with_result(args.dtype, args.gradient_dtype,
              [&]<class T, class Gradient>(T, Gradient) { backward_columns_as<T, Gradient>(args, columns); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_rows);
HWY_EXPORT(layer_norm_backward_columns);

}  // namespace

void layer_norm_forward(const LayerNormForward& args, Workers& workers) {
  require_storage(args.dtype);
  ZP_CHECK(args.width > 0);
  workers.run_ranges(args.rows, 4, [&](IndexRange rows) { HWY_DYNAMIC_DISPATCH(layer_norm_rows)(args, rows); });
}

void layer_norm_backward(const LayerNormBackward& args, Workers& workers) {
  require_result(args.gradient_dtype, args.dtype);
  ZP_CHECK(args.width > 0);
  workers.run_ranges(args.rows, 4, [&](IndexRange rows) {
    HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)(args, rows);
  });
  workers.run_ranges(args.width, kLineElements, [&](IndexRange columns) {
    HWY_DYNAMIC_DISPATCH(layer_norm_backward_columns)(args, columns);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
