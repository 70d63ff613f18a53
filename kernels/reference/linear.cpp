#include "kernels/linear.h"

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {
namespace {

std::size_t weight_index(WeightLayout layout, std::size_t in, std::size_t out, std::size_t i, std::size_t o) {
  return layout == WeightLayout::kOutIn ? o * in + i : i * out + o;
}

}  // namespace

void linear_forward(const LinearForward& args) {
  const std::size_t x_stride = stride_or(args.x_stride, args.in);
  const std::size_t y_stride = stride_or(args.y_stride, args.out);
  for (std::size_t t = 0; t < args.tokens; ++t) {
    for (std::size_t o = 0; o < args.out; ++o) {
      double sum = args.bias == nullptr ? 0 : load(args.dtype, args.bias, o);
      for (std::size_t i = 0; i < args.in; ++i) {
        sum += load(args.dtype, args.x, t * x_stride + i) *
               load(args.dtype, args.weight, weight_index(args.layout, args.in, args.out, i, o));
      }
      put(args.dtype, args.y, t * y_stride + o, sum, args.accumulate);
    }
  }
}

void linear_backward_input(const LinearBackwardInput& args) {
  const std::size_t d_x_stride = stride_or(args.d_x_stride, args.in);
  const std::size_t d_y_stride = stride_or(args.d_y_stride, args.out);
  for (std::size_t t = 0; t < args.tokens; ++t) {
    for (std::size_t i = 0; i < args.in; ++i) {
      double sum = 0;
      for (std::size_t o = 0; o < args.out; ++o) {
        sum += load(args.dtype, args.d_y, t * d_y_stride + o) *
               load(args.dtype, args.weight, weight_index(args.layout, args.in, args.out, i, o));
      }
      put(args.dtype, args.d_x, t * d_x_stride + i, sum, args.accumulate);
    }
  }
}

void linear_backward_weight(const LinearBackwardWeight& args) {
  const std::size_t x_stride = stride_or(args.x_stride, args.in);
  const std::size_t d_y_stride = stride_or(args.d_y_stride, args.out);
  for (std::size_t o = 0; o < args.out; ++o) {
    for (std::size_t i = 0; i < args.in; ++i) {
      double sum = 0;
      for (std::size_t t = 0; t < args.tokens; ++t) {
        sum += load(args.dtype, args.d_y, t * d_y_stride + o) * load(args.dtype, args.x, t * x_stride + i);
      }
      put(args.gradient_dtype, args.d_weight, weight_index(args.layout, args.in, args.out, i, o), sum, args.accumulate);
    }
    if (args.d_bias == nullptr) continue;
    double sum = 0;
    for (std::size_t t = 0; t < args.tokens; ++t) sum += load(args.dtype, args.d_y, t * d_y_stride + o);
    put(args.gradient_dtype, args.d_bias, o, sum, args.accumulate_bias);
  }
}

}  // namespace zeroplan::kernels::reference
