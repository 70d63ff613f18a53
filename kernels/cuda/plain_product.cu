// A matrix product for extents or alignments that cuBLASLt has no algorithm for: tiles of 32 x 32 in shared memory,
// fp32 sums over k in order.
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/matrix_products.h"
#include "kernels/cuda/storage.cuh"

namespace zeroplan::kernels::cuda {
namespace {

constexpr unsigned kTile = 32;
constexpr unsigned kRowsOfThreads = 8;

template <class T, class C>
__global__ void __launch_bounds__(kTile* kRowsOfThreads) plain_product_kernel(MatrixProduct p) {
  __shared__ float a_tile[kTile][kTile + 1];
  __shared__ float b_tile[kTile][kTile + 1];
  const auto* a = static_cast<const T*>(p.a);
  const auto* b = static_cast<const T*>(p.b);
  const std::size_t row0 = static_cast<std::size_t>(blockIdx.y) * kTile;
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * kTile + threadIdx.x;
  float sums[kTile / kRowsOfThreads] = {};
  for (std::size_t k0 = 0; k0 < p.k; k0 += kTile) {
    for (unsigned r = threadIdx.y; r < kTile; r += kRowsOfThreads) {
      const std::size_t row = row0 + r;
      const std::size_t inner = k0 + threadIdx.x;
      const bool in_a = row < p.m && inner < p.k;
      a_tile[r][threadIdx.x] = in_a ? widen(a[p.transpose_a ? inner * p.a_stride + row : row * p.a_stride + inner]) : 0;
      const std::size_t b_row = k0 + r;
      const bool in_b = b_row < p.k && column < p.n;
      b_tile[r][threadIdx.x] =
          in_b ? widen(b[p.transpose_b ? column * p.b_stride + b_row : b_row * p.b_stride + column]) : 0;
    }
    __syncthreads();
    for (unsigned inner = 0; inner < kTile; ++inner) {
#pragma unroll
      for (unsigned j = 0; j < kTile / kRowsOfThreads; ++j) {
        sums[j] = fmaf(a_tile[threadIdx.y + j * kRowsOfThreads][inner], b_tile[inner][threadIdx.x], sums[j]);
      }
    }
    __syncthreads();
  }
  if (column >= p.n) return;
  const float bias = p.bias != nullptr ? widen(static_cast<const T*>(p.bias)[column]) : 0.0f;
#pragma unroll
  for (unsigned j = 0; j < kTile / kRowsOfThreads; ++j) {
    const std::size_t row = row0 + threadIdx.y + j * kRowsOfThreads;
    if (row < p.m) {
      put<1>(static_cast<C*>(p.c) + row * p.c_stride + column, Floats<1>{{sums[j] + bias}}, p.accumulate);
    }
  }
}

}  // namespace

void enqueue_plain_product(const MatrixProduct& product, const Launch& launch) {
  const dim3 grid(static_cast<unsigned>((product.n + kTile - 1) / kTile),
                  static_cast<unsigned>((product.m + kTile - 1) / kTile));
  with_type(product.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    with_type(product.c_dtype, [&](auto c_tag) {
      using C = typename decltype(c_tag)::Type;
      plain_product_kernel<T, C><<<grid, dim3(kTile, kRowsOfThreads), 0, launch.stream>>>(product);
    });
  });
  check_launch("plain product");
}

}  // namespace zeroplan::kernels::cuda
