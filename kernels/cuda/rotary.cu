// Rotary position embedding in place: reads and writes each element once.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/rotary.h"

namespace zeroplan::kernels::cuda {
namespace {

/// Pairs (token, head, i) with i < half are numbered in this order, N of them a thread.
template <class T, int N>
__global__ void __launch_bounds__(kElementwiseThreads)
    rotary_kernel(Rotary args, unsigned pairs, unsigned half, std::size_t stride, T* x) {
  const unsigned pair = (blockIdx.x * kElementwiseThreads + threadIdx.x) * N;
  if (pair >= pairs) return;
  const unsigned row = pair / half;  // token x heads + head
  const unsigned i = pair % half;
  const unsigned heads = static_cast<unsigned>(args.heads);
  const unsigned token = row / heads;
  const std::size_t first = token * stride + row % heads * args.head_size + i;
  const float* angles = args.table + token % static_cast<unsigned>(args.sequence_length) * args.head_size;
  const Floats<N> cosine = load<N>(angles + i);
  const Floats<N> sine = load<N>(angles + half + i);
  Floats<N> a = load<N>(x + first);
  Floats<N> b = load<N>(x + first + half);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const float s = args.inverse ? -sine.v[e] : sine.v[e];
    const float rotated = fmaf(a.v[e], cosine.v[e], -b.v[e] * s);
    b.v[e] = fmaf(b.v[e], cosine.v[e], a.v[e] * s);
    a.v[e] = rotated;
  }
  store<N>(x + first, a);
  store<N>(x + first + half, b);
}

}  // namespace

void enqueue(const Rotary& args, const Launch& launch) {
  ZP_CHECK(args.head_size % 2 == 0 && args.sequence_length > 0);
  const std::size_t half = args.head_size / 2;
  const std::size_t pairs = args.tokens * args.heads * half;
  if (pairs == 0) return;
  ZP_CHECK(pairs < (std::size_t{1} << 31));
  const std::size_t stride = stride_or(args.x_stride, args.heads * args.head_size);
  const bool vectors = half % kVector == 0 && stride % kVector == 0 && aligned({args.x, args.table});
  const std::size_t each = vectors ? kElementwiseThreads * kVector : kElementwiseThreads;
  const auto blocks = static_cast<unsigned>((pairs + each - 1) / each);
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto kernel = vectors ? rotary_kernel<T, kVector> : rotary_kernel<T, 1>;
    kernel<<<blocks, kElementwiseThreads, 0, launch.stream>>>(
        args, static_cast<unsigned>(pairs), static_cast<unsigned>(half), stride, static_cast<T*>(args.x));
  });
  check_launch("rotary");
}

}  // namespace zeroplan::kernels::cuda
