#include "kernels/rms_norm.h"

#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void rms_norm_forward(const RmsNormForward& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    const std::size_t row = r * args.width;
    double mean_square = 0;
    for (std::size_t c = 0; c < args.width; ++c) {
      mean_square += std::pow(load(args.dtype, args.x, row + c), 2) / static_cast<double>(args.width);
    }
    const double rstd = 1 / std::sqrt(mean_square + args.epsilon);
    args.rstd[r] = static_cast<float>(rstd);
    for (std::size_t c = 0; c < args.width; ++c) {
      store(args.dtype, args.y, row + c, load(args.dtype, args.x, row + c) * rstd * load(args.dtype, args.weight, c));
    }
  }
}

void rms_norm_backward(const RmsNormBackward& args) {
  const auto d_y = [&](std::size_t r, std::size_t c) { return load(args.dtype, args.d_y, r * args.width + c); };
  const auto normal = [&](std::size_t r, std::size_t c) {
    return load(args.dtype, args.x, r * args.width + c) * args.rstd[r];
  };
  for (std::size_t r = 0; r < args.rows; ++r) {
    double mean_g_normal = 0;
    for (std::size_t c = 0; c < args.width; ++c) {
      mean_g_normal += d_y(r, c) * load(args.dtype, args.weight, c) * normal(r, c) / static_cast<double>(args.width);
    }
    for (std::size_t c = 0; c < args.width; ++c) {
      const double g = d_y(r, c) * load(args.dtype, args.weight, c);
      put(args.dtype, args.d_x, r * args.width + c, args.rstd[r] * (g - normal(r, c) * mean_g_normal), args.accumulate);
    }
  }
  for (std::size_t c = 0; c < args.width; ++c) {
    double d_weight = 0;
    for (std::size_t r = 0; r < args.rows; ++r) d_weight += d_y(r, c) * normal(r, c);
    put(args.gradient_dtype, args.d_weight, c, d_weight, args.accumulate_gradient);
  }
}

}  // namespace zeroplan::kernels::reference
