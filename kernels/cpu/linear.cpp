#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/linear.h"

#include "kernels/cpu/sums-inl.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T, class Gradient>
void sum_as(const LinearBackwardWeight& args, IndexRange columns) {
  const T* d_y = static_cast<const T*>(args.d_y);
  const std::size_t stride = stride_or(args.d_y_stride, args.out);
  sum_columns(args.tokens, columns, static_cast<Gradient*>(args.d_bias), args.accumulate_bias,
              [&](std::size_t r, std::size_t c, auto size) HWY_ATTR { return load(d_y + r * stride + c, size); });
}

void sum_bias(const LinearBackwardWeight& args, IndexRange columns) {
  with_result(args.dtype, args.gradient_dtype,
              [&]<class T, class Gradient>(T, Gradient) { sum_as<T, Gradient>(args, columns); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(sum_bias);

}  // namespace

void linear_forward(const LinearForward& args, Workers& workers) {
  const bool out_in = args.layout == WeightLayout::kOutIn;
  gemm({.dtype = args.dtype,
        .c_dtype = args.dtype,
        .m = args.tokens,
        .n = args.out,
        .k = args.in,
        .transpose_b = out_in,
        .a = args.x,
        .a_stride = stride_or(args.x_stride, args.in),
        .b = args.weight,
        .b_stride = out_in ? args.in : args.out,
        .c = args.y,
        .c_stride = stride_or(args.y_stride, args.out),
        .bias = args.bias,
        .accumulate = args.accumulate,
        .workspace = args.workspace},
       workers);
}

void linear_backward_input(const LinearBackwardInput& args, Workers& workers) {
  const bool out_in = args.layout == WeightLayout::kOutIn;
  gemm({.dtype = args.dtype,
        .c_dtype = args.dtype,
        .m = args.tokens,
        .n = args.in,
        .k = args.out,
        .transpose_b = !out_in,
        .a = args.d_y,
        .a_stride = stride_or(args.d_y_stride, args.out),
        .b = args.weight,
        .b_stride = out_in ? args.in : args.out,
        .c = args.d_x,
        .c_stride = stride_or(args.d_x_stride, args.in),
        .accumulate = args.accumulate,
        .workspace = args.workspace},
       workers);
}

void linear_backward_weight(const LinearBackwardWeight& args, Workers& workers) {
  const bool out_in = args.layout == WeightLayout::kOutIn;
  const std::size_t x_stride = stride_or(args.x_stride, args.in);
  const std::size_t d_y_stride = stride_or(args.d_y_stride, args.out);
  gemm({.dtype = args.dtype,
        .c_dtype = args.gradient_dtype,
        .m = out_in ? args.out : args.in,
        .n = out_in ? args.in : args.out,
        .k = args.tokens,
        .transpose_a = true,
        .a = out_in ? args.d_y : args.x,
        .a_stride = out_in ? d_y_stride : x_stride,
        .b = out_in ? args.x : args.d_y,
        .b_stride = out_in ? x_stride : d_y_stride,
        .c = args.d_weight,
        .c_stride = out_in ? args.in : args.out,
        .accumulate = args.accumulate,
        .workspace = args.workspace},
       workers);
  if (args.d_bias == nullptr) return;
  workers.run_ranges(args.out, kLineElements, [&](IndexRange columns) {
    HWY_DYNAMIC_DISPATCH(sum_bias)(args, columns);
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
