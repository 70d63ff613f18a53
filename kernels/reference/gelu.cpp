#include "kernels/gelu.h"

#include <cmath>
#include <numbers>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {
namespace {

constexpr double kCubic = 0.044715;

double inner(double x) {
  return std::sqrt(2 / std::numbers::pi) * (x + kCubic * x * x * x);
}

}  // namespace

void gelu_forward(const GeluForward& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const double x = load(args.dtype, args.x, i);
    store(args.dtype, args.y, i, x / 2 * (1 + std::tanh(inner(x))));
  }
}

void gelu_backward(const GeluBackward& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const double x = load(args.dtype, args.x, i);
    const double tangent = std::tanh(inner(x));
    const double d_inner = std::sqrt(2 / std::numbers::pi) * (1 + 3 * kCubic * x * x);
    const double slope = (1 + tangent) / 2 + x / 2 * (1 - tangent * tangent) * d_inner;
    store(args.dtype, args.d_x, i, load(args.dtype, args.d_y, i) * slope);
  }
}

}  // namespace zeroplan::kernels::reference
