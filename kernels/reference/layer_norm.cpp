#include "kernels/layer_norm.h"

#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void layer_norm_forward(const LayerNormForward& args) {
  const double width = static_cast<double>(args.width);
  for (std::size_t r = 0; r < args.rows; ++r) {
    const std::size_t row = r * args.width;
    double mean = 0;
    for (std::size_t c = 0; c < args.width; ++c) mean += load(args.dtype, args.x, row + c) / width;
    double variance = 0;
    for (std::size_t c = 0; c < args.width; ++c) {
      variance += std::pow(load(args.dtype, args.x, row + c) - mean, 2) / width;
    }
    const double rstd = 1 / std::sqrt(variance + args.epsilon);
    args.mean[r] = static_cast<float>(mean);
    args.rstd[r] = static_cast<float>(rstd);
    for (std::size_t c = 0; c < args.width; ++c) {
      const double bias = args.bias == nullptr ? 0 : load(args.dtype, args.bias, c);
      const double normal = (load(args.dtype, args.x, row + c) - mean) * rstd;
      store(args.dtype, args.y, row + c, normal * load(args.dtype, args.weight, c) + bias);
    }
  }
}

void layer_norm_backward(const LayerNormBackward& args) {
  const double width = static_cast<double>(args.width);
  const auto d_y = [&](std::size_t r, std::size_t c) { return load(args.dtype, args.d_y, r * args.width + c); };
  const auto normal = [&](std::size_t r, std::size_t c) {
    return (load(args.dtype, args.x, r * args.width + c) - args.mean[r]) * args.rstd[r];
  };
  for (std::size_t r = 0; r < args.rows; ++r) {
    double mean_g = 0;
    double mean_g_normal = 0;
    for (std::size_t c = 0; c < args.width; ++c) {
      const double g = d_y(r, c) * load(args.dtype, args.weight, c);
      mean_g += g / width;
      mean_g_normal += g * normal(r, c) / width;
    }
    for (std::size_t c = 0; c < args.width; ++c) {
      const double g = d_y(r, c) * load(args.dtype, args.weight, c);
      put(args.dtype, args.d_x, r * args.width + c, args.rstd[r] * (g - mean_g - normal(r, c) * mean_g_normal),
          args.accumulate);
    }
  }
  for (std::size_t c = 0; c < args.width; ++c) {
    double d_weight = 0;
    double d_bias = 0;
    for (std::size_t r = 0; r < args.rows; ++r) {
      d_weight += d_y(r, c) * normal(r, c);
      d_bias += d_y(r, c);
    }
    put(args.gradient_dtype, args.d_weight, c, d_weight, args.accumulate_gradient);
    if (args.d_bias != nullptr) put(args.gradient_dtype, args.d_bias, c, d_bias, args.accumulate_gradient);
  }
}

}  // namespace zeroplan::kernels::reference
