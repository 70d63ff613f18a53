// Linear layers: one matrix product each; the bias is added by the product, its gradient is a sum over rows.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/matrix_products.h"
#include "kernels/cuda/operators.h"
#include "kernels/gemm.h"
#include "kernels/linear.h"

namespace zeroplan::kernels::cuda {
namespace {

MatrixProduct product_of(const Gemm& args) {
  return {.dtype = args.dtype,
          .c_dtype = args.c_dtype,
          .m = args.m,
          .n = args.n,
          .k = args.k,
          .transpose_a = args.transpose_a,
          .transpose_b = args.transpose_b,
          .a = args.a,
          .a_stride = stride_or(args.a_stride, args.transpose_a ? args.m : args.k),
          .b = args.b,
          .b_stride = stride_or(args.b_stride, args.transpose_b ? args.k : args.n),
          .c = args.c,
          .c_stride = stride_or(args.c_stride, args.n),
          .bias = args.bias,
          .accumulate = args.accumulate};
}

MatrixProduct product_of(const LinearForward& args) {
  const bool out_in = args.layout == WeightLayout::kOutIn;
  return {.dtype = args.dtype,
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
          .accumulate = args.accumulate};
}

MatrixProduct product_of(const LinearBackwardInput& args) {
  const bool out_in = args.layout == WeightLayout::kOutIn;
  return {.dtype = args.dtype,
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
          .accumulate = args.accumulate};
}

MatrixProduct product_of(const LinearBackwardWeight& args) {
  const bool out_in = args.layout == WeightLayout::kOutIn;
  const std::size_t x_stride = stride_or(args.x_stride, args.in);
  const std::size_t d_y_stride = stride_or(args.d_y_stride, args.out);
  return {.dtype = args.dtype,
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
          .accumulate = args.accumulate};
}

void enqueue_bias_gradient(const LinearBackwardWeight& args, const Launch& launch) {
  auto* partials = static_cast<float*>(launch.workspace);
  const std::size_t stride = stride_or(args.d_y_stride, args.out);
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool vectors = args.out % kVector == 0 && stride % kVector == 0 && aligned({args.d_y});
    enqueue_column_parts(args.tokens, args.out, MatrixSource<T>{static_cast<const T*>(args.d_y), stride}, vectors,
                         partials, launch);
  });
  enqueue_finish_columns(partials, args.tokens, args.out, args.gradient_dtype, args.d_bias, args.accumulate_bias,
                         launch);
}

}  // namespace

void prepare(const Gemm& args, Context& context) {
  context.products().prepare(product_of(args));
}
void prepare(const LinearForward& args, Context& context) {
  context.products().prepare(product_of(args));
}
void prepare(const LinearBackwardInput& args, Context& context) {
  context.products().prepare(product_of(args));
}
void prepare(const LinearBackwardWeight& args, Context& context) {
  context.products().prepare(product_of(args));
}

void enqueue(const Gemm& args, const Launch& launch) {
  launch.context->products().enqueue(product_of(args), launch);
}
void enqueue(const LinearForward& args, const Launch& launch) {
  launch.context->products().enqueue(product_of(args), launch);
}
void enqueue(const LinearBackwardInput& args, const Launch& launch) {
  launch.context->products().enqueue(product_of(args), launch);
}
void enqueue(const LinearBackwardWeight& args, const Launch& launch) {
  ZP_CHECK(launch.workspace_bytes >= workspace_bytes(args));
  launch.context->products().enqueue(product_of(args), launch);
  if (args.d_bias != nullptr) enqueue_bias_gradient(args, launch);
}

}  // namespace zeroplan::kernels::cuda
