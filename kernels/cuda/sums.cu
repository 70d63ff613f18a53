// Sums of squares, the step's norm and the loss: in double, over trees that depend on the extents alone.
#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/ranges.h"
#include "models/core/cuda_workspace.h"

namespace zeroplan::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kTile = kThreads * kVector;

/// Block b adds the tiles b, b + gridDim.x, ...
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const T* x, std::size_t count, bool vectors, double* partials) {
  __shared__ double scratch[32];
  double sum = 0;
  for (std::size_t tile = blockIdx.x * kTile; tile < count; tile += gridDim.x * kTile) {
    const std::size_t i = tile + threadIdx.x * kVector;
    if (vectors && i + kVector <= count) {
      const Floats<kVector> values = load<kVector>(x + i);
#pragma unroll
      for (float value : values.v) sum = fma(static_cast<double>(value), static_cast<double>(value), sum);
    } else {
      for (std::size_t e = i; e < i + kVector && e < count; ++e) {
        const double value = widen(x[e]);
        sum = fma(value, value, sum);
      }
    }
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    finish_squares_kernel(const double* partials, unsigned parts, double* result, bool add) {
  __shared__ double scratch[32];
  double sum = 0;
  for (unsigned i = threadIdx.x; i < parts; i += kThreads) sum += partials[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *result = add ? *result + sum : sum;
}

__global__ void finish_norm_kernel(StepScalars* scalars, const double* partials, std::size_t stride,
                                   std::size_t count) {
  StepScalars& s = *scalars;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += partials[i * stride];
  s.found_inf = isfinite(sum) ? 0 : 1;
  s.grad_norm = sqrt(sum) * s.inverse_loss_scale;
  s.clip_factor = 1;
  if (s.found_inf != 0) return;
  if (s.max_grad_norm > 0) s.clip_factor = fmin(1.0, s.max_grad_norm / (s.grad_norm + 1e-6));
  ++s.optimizer_step;
  const double step = static_cast<double>(s.optimizer_step);
  s.bias_correction1 = 1 - pow(s.beta1, step);
  s.bias_correction2 = 1 - pow(s.beta2, step);
}

constexpr unsigned kLossThreads = 1024;

__global__ void __launch_bounds__(kLossThreads)
    loss_sum_kernel(const float* row_losses, std::size_t rows, StepScalars* scalars) {
  __shared__ double scratch[32];
  double sum = 0;
  for (std::size_t r = threadIdx.x; r < rows; r += kLossThreads) sum += row_losses[r];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) scalars->loss_sum += sum;
}

}  // namespace

void enqueue_sum_of_squares(const SumOfSquares& args, double* result, bool add, const Launch& launch) {
  ZP_CHECK(launch.workspace_bytes >= workspace_bytes(args));
  auto* partials = static_cast<double*>(launch.workspace);
  const auto parts = static_cast<unsigned>(
      std::clamp<std::size_t>((args.count + kTile - 1) / kTile, 1, static_cast<std::size_t>(kCudaSquareParts)));
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    squares_kernel<<<parts, kThreads, 0, launch.stream>>>(static_cast<const T*>(args.x), args.count, aligned({args.x}),
                                                          partials);
  });
  check_launch("sum of squares");
  finish_squares_kernel<<<1, kThreads, 0, launch.stream>>>(partials, parts, result, add);
  check_launch("sum of squares, second stage");
}

void enqueue_finish_norm(StepScalars* scalars, const double* partials, std::size_t stride, std::size_t count,
                         const Launch& launch) {
  finish_norm_kernel<<<1, 1, 0, launch.stream>>>(scalars, partials, stride, count);
  check_launch("finish norm");
}

void enqueue(const LossSum& args, const Launch& launch) {
  loss_sum_kernel<<<1, kLossThreads, 0, launch.stream>>>(args.row_losses, args.rows, args.scalars);
  check_launch("loss sum");
}

}  // namespace zeroplan::kernels::cuda
