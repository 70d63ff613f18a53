#include "kernels/rotary.h"

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void rotary(const Rotary& args) {
  const std::size_t half = args.head_size / 2;
  const std::size_t stride = stride_or(args.x_stride, args.heads * args.head_size);
  for (std::size_t t = 0; t < args.tokens; ++t) {
    const float* angles = args.table + t % args.sequence_length * args.head_size;
    for (std::size_t h = 0; h < args.heads; ++h) {
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t first = t * stride + h * args.head_size + i;
        const double cosine = angles[i];
        const double sine = args.inverse ? -angles[half + i] : angles[half + i];
        const double a = load(args.dtype, args.x, first);
        const double b = load(args.dtype, args.x, first + half);
        store(args.dtype, args.x, first, a * cosine - b * sine);
        store(args.dtype, args.x, first + half, b * cosine + a * sine);
      }
    }
  }
}

}  // namespace zeroplan::kernels::reference
