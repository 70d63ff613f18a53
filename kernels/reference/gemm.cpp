#include "kernels/gemm.h"

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void gemm(const Gemm& args) {
  for (std::size_t i = 0; i < args.m; ++i) {
    for (std::size_t j = 0; j < args.n; ++j) {
      double sum = args.bias == nullptr ? 0 : load(args.dtype, args.bias, j);
      for (std::size_t p = 0; p < args.k; ++p) {
        const std::size_t a = args.transpose_a ? p * args.a_stride + i : i * args.a_stride + p;
        const std::size_t b = args.transpose_b ? j * args.b_stride + p : p * args.b_stride + j;
        sum += load(args.dtype, args.a, a) * load(args.dtype, args.b, b);
      }
      put(args.c_dtype, args.c, i * args.c_stride + j, sum, args.accumulate);
    }
  }
}

}  // namespace zeroplan::kernels::reference
