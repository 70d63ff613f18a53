#include <cmath>
#include <numbers>

#include "kernels/rotary.h"
#include "models/core/error.h"

namespace zeroplan::kernels {
namespace {

/// The frequency of pair `i` after scaling. kLlama3 (transformers, modeling_rope_utils): wavelengths beyond original /
/// low are stretched by `factor`, those below original / high stay, those between are blended.
double frequency(const RotaryTable& args, std::size_t i) {
  const double exponent = 2 * static_cast<double>(i) / static_cast<double>(args.head_size);
  const double plain = 1 / std::pow(args.theta, exponent);
  switch (args.scaling) {
    case RotaryScaling::kNone:
      return plain;
    case RotaryScaling::kLinear:
      return plain / args.factor;
    case RotaryScaling::kLlama3: {
      const double wavelength = 2 * std::numbers::pi / plain;
      if (wavelength > args.original_positions / args.low_frequency_factor) return plain / args.factor;
      if (wavelength < args.original_positions / args.high_frequency_factor) return plain;
      const double smooth = (args.original_positions / wavelength - args.low_frequency_factor) /
                            (args.high_frequency_factor - args.low_frequency_factor);
      return (1 - smooth) * plain / args.factor + smooth * plain;
    }
  }
  return plain;
}

}  // namespace

void fill_rotary_table(const RotaryTable& args) {
  ZP_CHECK(args.head_size % 2 == 0);
  const std::size_t half = args.head_size / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double step = frequency(args, i);
    for (std::size_t position = 0; position < args.positions; ++position) {
      const double angle = static_cast<double>(position) * step;
      args.table[position * args.head_size + i] = static_cast<float>(std::cos(angle));
      args.table[position * args.head_size + half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace zeroplan::kernels
