#include "kernels/gated_silu.h"

#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

void gated_silu_forward(const GatedSiluForward& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const double gate = load(args.dtype, args.gate, i);
    store(args.dtype, args.y, i, gate * sigmoid(gate) * load(args.dtype, args.up, i));
  }
}

void gated_silu_backward(const GatedSiluBackward& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const double gate = load(args.dtype, args.gate, i);
    const double up = load(args.dtype, args.up, i);
    const double d_y = load(args.dtype, args.d_y, i);
    const double s = sigmoid(gate);
    store(args.dtype, args.d_gate, i, d_y * up * s * (1 + gate * (1 - s)));
    store(args.dtype, args.d_up, i, d_y * gate * s);
  }
}

}  // namespace zeroplan::kernels::reference
