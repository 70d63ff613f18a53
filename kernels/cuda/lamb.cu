// LAMB's three passes and the ratios between them. The direction is recomputed by the passes that need it.
#include <algorithm>

#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/update.cuh"
#include "kernels/lamb.h"
#include "models/core/cuda_workspace.h"

namespace zeroplan::kernels::cuda {
namespace {

struct Direction {
  float epsilon, decay;
  __device__ void set(const StepScalars& s) {
    epsilon = static_cast<float>(s.epsilon);
    decay = static_cast<float>(s.weight_decay);
  }
  __device__ float of(float p, float m, float v) const { return fmaf(decay, p, m / (sqrtf(v) + epsilon)); }
};

struct MomentsRule {
  static constexpr bool kGradient = true, kParameter = false, kSecond = true, kMoments = true;
  struct Choice {};
  float gradient_factor, beta1, blend1, beta2, blend2;

  __device__ void set(const StepScalars& s, Choice) {
    gradient_factor = static_cast<float>(s.inverse_loss_scale * s.clip_factor);
    beta1 = static_cast<float>(s.beta1);
    blend1 = static_cast<float>(1 - s.beta1);
    beta2 = static_cast<float>(s.beta2);
    blend2 = static_cast<float>(1 - s.beta2);
  }
  __device__ void apply(float gradient, float&, float& m, float& v) const {
    const float g = gradient * gradient_factor;
    m = fmaf(blend1, g, beta1 * m);
    v = fmaf(blend2 * g, g, beta2 * v);
  }
};

struct UpdateRule {
  static constexpr bool kGradient = false, kParameter = true, kSecond = true, kMoments = false;
  struct Choice {
    const double* ratio;
  };
  Direction direction;
  float step;

  __device__ void set(const StepScalars& s, Choice choice) {
    direction.set(s);
    step = static_cast<float>(s.learning_rate * sqrt(s.bias_correction2) / s.bias_correction1 * *choice.ratio);
  }
  __device__ void apply(float, float& p, float& m, float& v) const { p = fmaf(-step, direction.of(p, m, v), p); }
};

constexpr unsigned kThreads = 256;
constexpr std::size_t kTile = 4096;

/// Block b adds the tiles b, b + gridDim.x, ... partials: the parameter's sums of all blocks, then the direction's.
__global__ void __launch_bounds__(kThreads) norms_kernel(LambNorms args, double* partials) {
  __shared__ double scratch[32];
  Direction direction;
  direction.set(*args.scalars);
  double of_parameter = 0;
  double of_direction = 0;
  for (std::size_t tile = blockIdx.x * kTile; tile < args.count; tile += gridDim.x * kTile) {
    for (std::size_t i = tile + threadIdx.x; i < tile + kTile && i < args.count; i += kThreads) {
      const double p = args.parameter[i];
      const double u = direction.of(args.parameter[i], args.first_moment[i], args.second_moment[i]);
      of_parameter = fma(p, p, of_parameter);
      of_direction = fma(u, u, of_direction);
    }
  }
  of_parameter = block_sum(of_parameter, scratch);
  of_direction = block_sum(of_direction, scratch);
  if (threadIdx.x != 0) return;
  partials[blockIdx.x] = of_parameter;
  partials[gridDim.x + blockIdx.x] = of_direction;
}

__global__ void __launch_bounds__(kThreads)
    finish_norms_kernel(const double* partials, unsigned parts, LambSums* result, bool add) {
  __shared__ double scratch[32];
  LambSums sums;
  for (unsigned i = threadIdx.x; i < parts; i += kThreads) {
    sums.parameter += partials[i];
    sums.direction += partials[parts + i];
  }
  sums.parameter = block_sum(sums.parameter, scratch);
  sums.direction = block_sum(sums.direction, scratch);
  if (threadIdx.x != 0) return;
  result->parameter = add ? result->parameter + sums.parameter : sums.parameter;
  result->direction = add ? result->direction + sums.direction : sums.direction;
}

/// As kernels::lamb_ratio.
__device__ double ratio_of(const StepScalars& s, const LambSums& sums) {
  if (sums.parameter == 0 || sums.direction == 0) return 1;
  const double ratio = sqrt(sums.parameter) / sqrt(sums.direction);
  const double least = ratio < s.max_coeff ? ratio : s.max_coeff;
  return s.min_coeff < least ? least : s.min_coeff;
}

__global__ void ratios_kernel(const StepScalars* scalars, const LambSums* parts, std::size_t ranks, std::size_t count,
                              double* ratios) {
  const std::size_t p = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (p >= count) return;
  LambSums whole;
  for (std::size_t r = 0; r < ranks; ++r) {
    whole.parameter += parts[r * count + p].parameter;
    whole.direction += parts[r * count + p].direction;
  }
  ratios[p] = ratio_of(*scalars, whole);
}

}  // namespace

void enqueue(const LambMoments& args, const Launch& launch) {
  enqueue_update<MomentsRule>({.count = args.count,
                               .gradient_dtype = args.gradient_dtype,
                               .gradient = args.gradient,
                               .first = args.first_moment,
                               .second = args.second_moment,
                               .scalars = args.scalars},
                              {}, launch, "lamb moments");
}

void enqueue(const LambUpdate& args, const Launch& launch) {
  // The rule reads the moments and writes none of them.
  enqueue_update<UpdateRule>({.count = args.count,
                              .parameter = args.parameter,
                              .first = const_cast<float*>(args.first_moment),
                              .second = const_cast<float*>(args.second_moment),
                              .copy_dtype = args.copy_dtype,
                              .copy = args.parameter_copy,
                              .scalars = args.scalars},
                             {args.ratio}, launch, "lamb update");
}

void enqueue_lamb_norms(const LambNorms& args, LambSums* result, bool add, const Launch& launch) {
  ZP_CHECK(launch.workspace_bytes >= workspace_bytes(args));
  auto* partials = static_cast<double*>(launch.workspace);
  const auto parts = static_cast<unsigned>(
      std::clamp<std::size_t>((args.count + kTile - 1) / kTile, 1, static_cast<std::size_t>(kCudaSquareParts)));
  norms_kernel<<<parts, kThreads, 0, launch.stream>>>(args, partials);
  check_launch("lamb norms");
  finish_norms_kernel<<<1, kThreads, 0, launch.stream>>>(partials, parts, result, add);
  check_launch("lamb norms, second stage");
}

void enqueue_lamb_ratios(const StepScalars* scalars, const LambSums* parts, std::size_t ranks, std::size_t count,
                         double* ratios, const Launch& launch) {
  if (count == 0) return;
  ratios_kernel<<<static_cast<unsigned>((count + 127) / 128), 128, 0, launch.stream>>>(scalars, parts, ranks, count,
                                                                                       ratios);
  check_launch("lamb ratios");
}

}  // namespace zeroplan::kernels::cuda
