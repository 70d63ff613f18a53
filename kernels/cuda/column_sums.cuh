// Sums over the rows of a matrix in two stages: parts of the rows in parallel, then the parts in order. The number of
// parts depends on the extents alone. Main functions: enqueue_column_parts, enqueue_finish_columns. Depends on
// storage.cuh.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/storage.cuh"
#include "models/core/cuda_workspace.h"

namespace zeroplan::kernels::cuda {

constexpr unsigned kColumnWarps = 8;

/// Block (tile, part): its warps add every eighth row of the part, then the warps' sums are added in order. `source`
/// gives N values of a row: at<N>(row, column).
template <int N, class Source>
__global__ void __launch_bounds__(kColumnWarps * 32)
    column_parts_kernel(std::size_t rows, std::size_t width, Source source, float* partials) {
  __shared__ Floats<N> sums[kColumnWarps][32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::size_t column = (static_cast<std::size_t>(blockIdx.x) * 32 + lane) * N;
  const std::size_t each = (rows + gridDim.y - 1) / gridDim.y;
  const std::size_t end = min(rows, (blockIdx.y + 1) * each);
  Floats<N> sum{};
  if (column < width) {
#pragma unroll 4
    for (std::size_t row = blockIdx.y * each + warp; row < end; row += kColumnWarps) {
      const Floats<N> x = source.template at<N>(row, column);
#pragma unroll
      for (int e = 0; e < N; ++e) sum.v[e] += x.v[e];
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (unsigned w = 1; w < kColumnWarps; ++w) {
#pragma unroll
    for (int e = 0; e < N; ++e) sum.v[e] += sums[w][lane].v[e];
  }
#pragma unroll
  for (int e = 0; e < N; ++e) partials[blockIdx.y * width + column + e] = sum.v[e];
}

/// partials [cuda_column_sum_parts(rows), width] from source.at<N>(row, column).
template <class Source>
void enqueue_column_parts(std::size_t rows, std::size_t width, const Source& source, bool vectors, float* partials,
                          const Launch& launch) {
  const auto parts = static_cast<unsigned>(cuda_column_sum_parts(rows));
  const std::size_t columns = vectors ? std::size_t{32} * kVector : 32;
  const dim3 grid(static_cast<unsigned>((width + columns - 1) / columns), parts);
  if (vectors) {
    column_parts_kernel<kVector><<<grid, kColumnWarps * 32, 0, launch.stream>>>(rows, width, source, partials);
  } else {
    column_parts_kernel<1><<<grid, kColumnWarps * 32, 0, launch.stream>>>(rows, width, source, partials);
  }
  check_launch("column sums");
}

/// out [width] = (or +=) the sum of the parts, warp by warp in a fixed order.
template <class T>
__global__ void __launch_bounds__(kColumnWarps * 32)
    finish_columns_kernel(const float* partials, unsigned parts, std::size_t width, T* out, bool accumulate) {
  __shared__ float sums[kColumnWarps][32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (column < width) {
#pragma unroll 8
    for (unsigned part = warp; part < parts; part += kColumnWarps) sum += partials[part * width + column];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (unsigned w = 1; w < kColumnWarps; ++w) sum += sums[w][lane];
  put<1>(out + column, Floats<1>{{sum}}, accumulate);
}

inline void enqueue_finish_columns(const float* partials, std::size_t rows, std::size_t width, DType dtype, void* out,
                                   bool accumulate, const Launch& launch) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    finish_columns_kernel<<<static_cast<unsigned>((width + 31) / 32), kColumnWarps * 32, 0, launch.stream>>>(
        partials, static_cast<unsigned>(cuda_column_sum_parts(rows)), width, static_cast<T*>(out), accumulate);
  });
  check_launch("column sums, second stage");
}

/// The elements of a matrix as they are.
template <class T>
struct MatrixSource {
  const T* data;
  std::size_t stride;
  template <int N>
  __device__ Floats<N> at(std::size_t row, std::size_t column) const {
    return load<N>(data + row * stride + column);
  }
};

}  // namespace zeroplan::kernels::cuda
