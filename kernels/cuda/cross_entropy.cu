// Softmax cross-entropy, loss and gradient in place: a block a row. One pass finds the largest logit and the sum of
// exponentials relative to it (rescaled as the maximum grows), a second one, served mostly by the L2 cache, writes the
// gradient: 2 elements moved for each logit beyond what the cache serves.
#include <limits>

#include "kernels/cross_entropy.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/operators.h"

namespace zeroplan::kernels::cuda {
namespace {

constexpr unsigned kThreads = 512;

/// Calls function.operator()<N>(column) over a row: single elements up to the first 16-byte boundary and at the end.
template <class T, class Function>
__device__ void for_each_column(const T* row, std::size_t columns, Function function) {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
  const std::size_t head = min(columns, misaligned == 0 ? std::size_t{0} : 16 / sizeof(T) - misaligned);
  const std::size_t vectors = (columns - head) / kVector;
  if (threadIdx.x < head) function.template operator()<1>(threadIdx.x);
  for (std::size_t v = threadIdx.x; v < vectors; v += kThreads) {
    function.template operator()<kVector>(head + v * kVector);
  }
  const std::size_t tail = head + vectors * kVector + threadIdx.x;
  if (tail < columns) function.template operator()<1>(tail);
}

__device__ float block_max(float value, float* scratch) {
  value = lanes_max(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value =
      lanes_max(threadIdx.x % 32 < kThreads / 32 ? scratch[threadIdx.x % 32] : -std::numeric_limits<float>::infinity());
  __syncthreads();
  return value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(CrossEntropy args, std::size_t stride) {
  __shared__ float scratch[32];
  T* row = static_cast<T*>(args.logits) + blockIdx.x * stride;
  const std::int32_t label = args.labels[blockIdx.x];
  const bool counted = label != kIgnoredLabel;
  const float at_label = counted ? widen(row[label]) : 0.0f;

  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
  for_each_column(row, args.vocabulary, [&]<int N>(std::size_t c) {
    const Floats<N> x = load<N>(row + c);
    float top = x.v[0];
#pragma unroll
    for (int e = 1; e < N; ++e) top = fmaxf(top, x.v[e]);
    if (top > largest) {
      sum *= exponential<T>(largest - top);
      largest = top;
    }
    // Logits of minus infinity before any other have no share; one that is not a number must show.
    if (largest == -std::numeric_limits<float>::infinity() && top == largest) return;
#pragma unroll
    for (int e = 0; e < N; ++e) sum += exponential<T>(x.v[e] - largest);
  });
  const float top = block_max(largest, scratch);
  if (largest != top) sum *= exponential<T>(largest - top);
  sum = block_sum(sum, scratch);
  const float log_of_sum = logf(sum);
  if (threadIdx.x == 0) args.row_losses[blockIdx.x] = counted ? (top - at_label) + log_of_sum : 0.0f;
  if (!args.backward) return;

  const float scale = static_cast<float>(args.scalars->loss_scale * args.scalars->inverse_valid_tokens);
  const float factor = scale / sum;
  for_each_column(row, args.vocabulary, [&]<int N>(std::size_t c) {
    Floats<N> x = load<N>(row + c);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      x.v[e] = exponential<T>(x.v[e] - top) * factor;
      if (static_cast<std::int64_t>(c) + e == label) x.v[e] -= scale;
      if (!counted) x.v[e] = 0.0f;
    }
    store<N>(row + c, x);
  });
}

}  // namespace

void enqueue(const CrossEntropy& args, const Launch& launch) {
  if (args.rows == 0) return;
  ZP_CHECK(args.vocabulary > 0);
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    cross_entropy_kernel<T><<<static_cast<unsigned>(args.rows), kThreads, 0, launch.stream>>>(
        args, stride_or(args.logits_stride, args.vocabulary));
  });
  check_launch("cross entropy");
}

}  // namespace zeroplan::kernels::cuda
