// Layer norm and RMS norm share their kernels: RMS norm is the same with mean 0 and no bias. A row belongs to a warp
// (width <= 1024) or to a block of 256 threads (width <= 8192) and stays in registers; other rows are read again from
// the cache. The backward pass reads d_y and x once, keeps the sums for the weight's gradient in registers while a
// group walks over its rows, and leaves one row of partial sums for each block. Depends on block_sum.cuh and
// column_sums.cuh.
#pragma once

#include <cstddef>

#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/context.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/storage.cuh"

namespace zeroplan::kernels::cuda {

constexpr int kNormThreads = 256;

/// Operands of both norms' forward pass; mean and bias may be none.
template <class T>
struct NormForward {
  std::size_t rows, width;
  float epsilon;
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  float* mean;
  float* rstd;
};

/// Operands of both norms' backward pass; mean may be none.
template <class T>
struct NormBackward {
  std::size_t rows, width;
  const T* d_y;
  const T* x;
  const T* weight;
  const float* mean;
  const float* rstd;
  T* d_x;
  bool accumulate;
};

/// The sum over a group of 32 or of all threads of the block.
template <int Group>
__device__ inline float group_sum(float value, float* scratch) {
  if constexpr (Group == 32) {
    return lanes_sum(value);
  } else {
    return block_sum(value, scratch);
  }
}

/// A row in registers: thread t of the group holds the vectors t, t + Group, ...
template <class T, bool kCentred, int Group, int Vectors>
__global__ void __launch_bounds__(kNormThreads) norm_forward_kernel(NormForward<T> args) {
  __shared__ float scratch[32];
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * (kNormThreads / Group) + threadIdx.x / Group;
  if (row >= args.rows) return;
  const unsigned first = threadIdx.x % Group * kVector;
  const T* x = args.x + row * args.width;
  const float count = static_cast<float>(args.width);
  Floats<kVector> values[Vectors];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const unsigned c = first + j * Group * kVector;
    values[j] = c < args.width ? load<kVector>(x + c) : Floats<kVector>{};
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum += kCentred ? values[j].v[e] : values[j].v[e] * values[j].v[e];
  }
  sum = group_sum<Group>(sum, scratch);
  float mean = 0;
  if constexpr (kCentred) {
    mean = sum / count;
    sum = 0;
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      if (first + j * Group * kVector >= args.width) continue;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        values[j].v[e] -= mean;
        sum = fmaf(values[j].v[e], values[j].v[e], sum);
      }
    }
    sum = group_sum<Group>(sum, scratch);
  }
  const float rstd = 1.0f / sqrtf(sum / count + args.epsilon);
#pragma unroll
  for (int j = 0; j < Vectors; ++j) {
    const unsigned c = first + j * Group * kVector;
    if (c >= args.width) continue;
    const Floats<kVector> w = load<kVector>(args.weight + c);
    const Floats<kVector> b = args.bias != nullptr ? load<kVector>(args.bias + c) : Floats<kVector>{};
#pragma unroll
    for (int e = 0; e < kVector; ++e) values[j].v[e] = fmaf(values[j].v[e] * rstd, w.v[e], b.v[e]);
    store<kVector>(args.y + row * args.width + c, values[j]);
  }
  if (threadIdx.x % Group == 0) {
    if (args.mean != nullptr) args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
}

/// Any width and alignment: a block a row, an element at a time.
template <class T, bool kCentred>
__global__ void __launch_bounds__(kNormThreads) norm_forward_any_kernel(NormForward<T> args) {
  __shared__ float scratch[32];
  const std::size_t row = blockIdx.x;
  const T* x = args.x + row * args.width;
  const float count = static_cast<float>(args.width);
  float mean = 0;
  if constexpr (kCentred) {
    float sum = 0;
    for (std::size_t c = threadIdx.x; c < args.width; c += kNormThreads) sum += widen(x[c]);
    mean = block_sum(sum, scratch) / count;
  }
  float square = 0;
  for (std::size_t c = threadIdx.x; c < args.width; c += kNormThreads) {
    const float centred = widen(x[c]) - mean;
    square = fmaf(centred, centred, square);
  }
  const float rstd = 1.0f / sqrtf(block_sum(square, scratch) / count + args.epsilon);
  for (std::size_t c = threadIdx.x; c < args.width; c += kNormThreads) {
    const float bias = args.bias != nullptr ? widen(args.bias[c]) : 0.0f;
    args.y[row * args.width + c] = narrow<T>(fmaf((widen(x[c]) - mean) * rstd, widen(args.weight[c]), bias));
  }
  if (threadIdx.x == 0) {
    if (args.mean != nullptr) args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
}

/// Adds the groups' sums in order and writes the block's row of `partials`.
template <int Group, int Vectors>
__device__ void write_partials(const Floats<kVector> (&sums)[Vectors], std::size_t width, float* shared,
                               float* partials) {
  const unsigned group = threadIdx.x / Group;
  const unsigned first = threadIdx.x % Group * kVector;
  float* out = partials + blockIdx.x * width;
  if constexpr (Group == kNormThreads) {
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      const unsigned c = first + j * Group * kVector;
      if (c < width) store<kVector>(out + c, sums[j]);
    }
  } else {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      const unsigned c = first + j * Group * kVector;
      if (c < width) store<kVector>(shared + group * width + c, sums[j]);
    }
    __syncthreads();
    for (unsigned c = threadIdx.x; c < width; c += kNormThreads) {
      float sum = shared[c];
      for (unsigned g = 1; g < kNormThreads / Group; ++g) sum += shared[g * width + c];
      out[c] = sum;
    }
  }
}

/// partials: [blocks, width] of the weight's gradient, then of the bias's if it is centred.
template <class T, bool kCentred, int Group, int Vectors>
__global__ void __launch_bounds__(kNormThreads) norm_backward_kernel(NormBackward<T> args, float* partials) {
  __shared__ float scratch[32];
  extern __shared__ float4 shared[];
  const unsigned first = threadIdx.x % Group * kVector;
  const float inverse_count = 1.0f / static_cast<float>(args.width);
  Floats<kVector> d_weight[Vectors] = {};
  Floats<kVector> d_bias[Vectors] = {};
  constexpr unsigned kGroups = kNormThreads / Group;
  for (std::size_t row = static_cast<std::size_t>(blockIdx.x) * kGroups + threadIdx.x / Group; row < args.rows;
       row += static_cast<std::size_t>(gridDim.x) * kGroups) {
    const float rstd = args.rstd[row];
    const float mean = kCentred ? args.mean[row] : 0.0f;
    Floats<kVector> g[Vectors];
    Floats<kVector> normal[Vectors];
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      const unsigned c = first + j * Group * kVector;
      g[j] = c < args.width ? load<kVector>(args.d_y + row * args.width + c) : Floats<kVector>{};
      normal[j] = c < args.width ? load<kVector>(args.x + row * args.width + c) : Floats<kVector>{};
    }
    float sum_g = 0;
    float sum_g_normal = 0;
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      const unsigned c = first + j * Group * kVector;
      if (c >= args.width) continue;
      const Floats<kVector> w = load<kVector>(args.weight + c);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const float n = (normal[j].v[e] - mean) * rstd;
        normal[j].v[e] = n;
        d_weight[j].v[e] = fmaf(g[j].v[e], n, d_weight[j].v[e]);
        if constexpr (kCentred) d_bias[j].v[e] += g[j].v[e];
        g[j].v[e] *= w.v[e];
        if constexpr (kCentred) sum_g += g[j].v[e];
        sum_g_normal = fmaf(g[j].v[e], n, sum_g_normal);
      }
    }
    if constexpr (kCentred) sum_g = group_sum<Group>(sum_g, scratch);
    sum_g_normal = group_sum<Group>(sum_g_normal, scratch);
    const float mean_g = sum_g * inverse_count;
    const float mean_g_normal = sum_g_normal * inverse_count;
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      const unsigned c = first + j * Group * kVector;
      if (c >= args.width) continue;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        g[j].v[e] = rstd * fmaf(-normal[j].v[e], mean_g_normal, g[j].v[e] - mean_g);
      }
      put<kVector>(args.d_x + row * args.width + c, g[j], args.accumulate);
    }
  }
  auto* sums = reinterpret_cast<float*>(shared);
  write_partials<Group>(d_weight, args.width, sums, partials);
  if constexpr (kCentred) write_partials<Group>(d_bias, args.width, sums, partials + gridDim.x * args.width);
}

/// d_x alone, for any width and alignment. The d_x of a row may be written only after its sums are known; each element
/// is read and written by one thread.
template <class T, bool kCentred>
__global__ void __launch_bounds__(kNormThreads) norm_backward_any_kernel(NormBackward<T> args) {
  __shared__ float scratch[32];
  const std::size_t row = blockIdx.x;
  const float inverse_count = 1.0f / static_cast<float>(args.width);
  const float rstd = args.rstd[row];
  const float mean = kCentred ? args.mean[row] : 0.0f;
  float sum_g = 0;
  float sum_g_normal = 0;
  for (std::size_t c = threadIdx.x; c < args.width; c += kNormThreads) {
    const float g = widen(args.d_y[row * args.width + c]) * widen(args.weight[c]);
    if constexpr (kCentred) sum_g += g;
    sum_g_normal = fmaf(g, (widen(args.x[row * args.width + c]) - mean) * rstd, sum_g_normal);
  }
  const float mean_g = kCentred ? block_sum(sum_g, scratch) * inverse_count : 0.0f;
  const float mean_g_normal = block_sum(sum_g_normal, scratch) * inverse_count;
  for (std::size_t c = threadIdx.x; c < args.width; c += kNormThreads) {
    const float g = widen(args.d_y[row * args.width + c]) * widen(args.weight[c]);
    const float normal = (widen(args.x[row * args.width + c]) - mean) * rstd;
    put<1>(args.d_x + row * args.width + c, Floats<1>{{rstd * fmaf(-normal, mean_g_normal, g - mean_g)}},
           args.accumulate);
  }
}

/// The terms of the weight's gradient.
template <class T, bool kCentred>
struct WeightGradientSource {
  NormBackward<T> args;
  template <int N>
  __device__ Floats<N> at(std::size_t row, std::size_t column) const {
    Floats<N> terms = load<N>(args.d_y + row * args.width + column);
    const Floats<N> x = load<N>(args.x + row * args.width + column);
    const float mean = kCentred ? args.mean[row] : 0.0f;
#pragma unroll
    for (int e = 0; e < N; ++e) terms.v[e] *= (x.v[e] - mean) * args.rstd[row];
    return terms;
  }
};

/// The kernel for a width that suits vectors, or null.
template <class T, bool kCentred>
auto forward_kernel_for(std::size_t width) -> void (*)(NormForward<T>) {
  if (width <= 256) return norm_forward_kernel<T, kCentred, 32, 1>;
  if (width <= 512) return norm_forward_kernel<T, kCentred, 32, 2>;
  if (width <= 768) return norm_forward_kernel<T, kCentred, 32, 3>;
  if (width <= 1024) return norm_forward_kernel<T, kCentred, 32, 4>;
  if (width <= 2048) return norm_forward_kernel<T, kCentred, kNormThreads, 1>;
  if (width <= 4096) return norm_forward_kernel<T, kCentred, kNormThreads, 2>;
  if (width <= 8192) return norm_forward_kernel<T, kCentred, kNormThreads, 4>;
  return nullptr;
}

template <class T, bool kCentred>
auto backward_kernel_for(std::size_t width) -> void (*)(NormBackward<T>, float*) {
  if (width <= 256) return norm_backward_kernel<T, kCentred, 32, 1>;
  if (width <= 512) return norm_backward_kernel<T, kCentred, 32, 2>;
  if (width <= 768) return norm_backward_kernel<T, kCentred, 32, 3>;
  if (width <= 1024) return norm_backward_kernel<T, kCentred, 32, 4>;
  if (width <= 2048) return norm_backward_kernel<T, kCentred, kNormThreads, 1>;
  if (width <= 4096) return norm_backward_kernel<T, kCentred, kNormThreads, 2>;
  if (width <= 8192) return norm_backward_kernel<T, kCentred, kNormThreads, 4>;
  return nullptr;
}

constexpr std::size_t kWarpWidth = 1024;

template <class T, bool kCentred>
void enqueue_norm_forward(const NormForward<T>& args, const Launch& launch, const char* name) {
  if (args.rows == 0) return;
  const bool vectors = args.width % kVector == 0 && aligned({args.x, args.weight, args.bias, args.y});
  const auto kernel = vectors ? forward_kernel_for<T, kCentred>(args.width) : nullptr;
  if (kernel != nullptr) {
    const std::size_t each = args.width <= kWarpWidth ? kNormThreads / 32 : 1;
    kernel<<<static_cast<unsigned>((args.rows + each - 1) / each), kNormThreads, 0, launch.stream>>>(args);
  } else {
    norm_forward_any_kernel<T, kCentred><<<static_cast<unsigned>(args.rows), kNormThreads, 0, launch.stream>>>(args);
  }
  check_launch(name);
}

/// Where the gradients of weight and bias go.
struct NormGradients {
  DType dtype;
  void* d_weight;
  void* d_bias;  ///< or none
  bool accumulate;
};

template <class T, bool kCentred>
void enqueue_norm_backward(const NormBackward<T>& args, const NormGradients& gradients, const Launch& launch,
                           const char* name) {
  auto* partials = static_cast<float*>(launch.workspace);
  const auto parts = static_cast<unsigned>(cuda_column_sum_parts(args.rows));
  float* bias_partials = partials + parts * args.width;
  const bool vectors = args.width % kVector == 0 && aligned({args.d_y, args.x, args.weight, args.d_x, partials});
  const auto kernel = vectors ? backward_kernel_for<T, kCentred>(args.width) : nullptr;
  if (kernel != nullptr) {
    const std::size_t shared = args.width <= kWarpWidth ? kNormThreads / 32 * args.width * sizeof(float) : 0;
    kernel<<<parts, kNormThreads, shared, launch.stream>>>(args, partials);
    check_launch(name);
  } else {
    // The sums read x before d_x, which may be x, is written.
    enqueue_column_parts(args.rows, args.width, WeightGradientSource<T, kCentred>{args}, false, partials, launch);
    if (gradients.d_bias != nullptr) {
      enqueue_column_parts(args.rows, args.width, MatrixSource<T>{args.d_y, args.width}, false, bias_partials, launch);
    }
    if (args.rows > 0) {
      norm_backward_any_kernel<T, kCentred><<<static_cast<unsigned>(args.rows), kNormThreads, 0, launch.stream>>>(args);
    }
    check_launch(name);
  }
  enqueue_finish_columns(partials, args.rows, args.width, gradients.dtype, gradients.d_weight, gradients.accumulate,
                         launch);
  if (gradients.d_bias != nullptr) {
    enqueue_finish_columns(bias_partials, args.rows, args.width, gradients.dtype, gradients.d_bias,
                           gradients.accumulate, launch);
  }
}

}  // namespace zeroplan::kernels::cuda
