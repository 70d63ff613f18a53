// The frame of the optimizers: one fused pass that reads gradient, parameter and moments and writes the latter with the
// parameter's 16-bit copy. A rule says what happens to one element; its constants are computed in double once a block
// and rounded once. Nothing happens if found_inf. Depends on storage.cuh.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/step_scalars.h"

namespace zeroplan::kernels::cuda {

/// Operands of any rule; those it does not have are null.
struct UpdateOperands {
  std::size_t count = 0;
  DType gradient_dtype = DType::kFp32;
  const void* gradient = nullptr;
  float* parameter = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  DType copy_dtype = DType::kBf16;
  void* copy = nullptr;
  const StepScalars* scalars = nullptr;
};

template <int N>
__device__ inline Floats<N> load_as(DType type, const void* data, std::size_t i) {
  if (type == DType::kBf16) return load<N>(static_cast<const __nv_bfloat16*>(data) + i);
  if (type == DType::kFp16) return load<N>(static_cast<const __half*>(data) + i);
  return load<N>(static_cast<const float*>(data) + i);
}

template <int N>
__device__ inline void store_as(DType type, void* data, std::size_t i, const Floats<N>& values) {
  if (type == DType::kBf16) {
    store<N>(static_cast<__nv_bfloat16*>(data) + i, values);
  } else if (type == DType::kFp16) {
    store<N>(static_cast<__half*>(data) + i, values);
  } else {
    store<N>(static_cast<float*>(data) + i, values);
  }
}

template <int N, class Rule>
__device__ inline void update_at(const UpdateOperands& o, const Rule& rule, std::size_t i) {
  Floats<N> g{}, p{}, m{}, v{};
  if constexpr (Rule::kGradient) g = load_as<N>(o.gradient_dtype, o.gradient, i);
  if constexpr (Rule::kParameter) p = load<N>(o.parameter + i);
  m = load<N>(o.first + i);
  if constexpr (Rule::kSecond) v = load<N>(o.second + i);
#pragma unroll
  for (int e = 0; e < N; ++e) rule.apply(g.v[e], p.v[e], m.v[e], v.v[e]);
  if constexpr (Rule::kMoments) {
    store<N>(o.first + i, m);
    if constexpr (Rule::kSecond) store<N>(o.second + i, v);
  }
  if constexpr (Rule::kParameter) {
    store<N>(o.parameter + i, p);
    if (o.copy != nullptr) store_as<N>(o.copy_dtype, o.copy, i, p);
  }
}

constexpr unsigned kUpdateThreads = 256;
constexpr unsigned kUpdateRounds = 4;

template <class Rule>
__global__ void __launch_bounds__(kUpdateThreads)
    update_kernel(UpdateOperands o, typename Rule::Choice choice, bool vectors) {
  if (o.scalars->found_inf != 0) return;
  __shared__ Rule rule;
  if (threadIdx.x == 0) rule.set(*o.scalars, choice);
  __syncthreads();
  const Rule mine = rule;
  const unsigned each = vectors ? kVector : 1;
  const std::size_t block = static_cast<std::size_t>(blockIdx.x) * kUpdateThreads * kUpdateRounds * each;
  for (unsigned round = 0; round < kUpdateRounds; ++round) {
    std::size_t i = block + (round * kUpdateThreads + threadIdx.x) * each;
    if (vectors && i + kVector <= o.count) {
      update_at<kVector>(o, mine, i);
    } else {
      const std::size_t end = i + each < o.count ? i + each : o.count;
      for (; i < end; ++i) update_at<1>(o, mine, i);
    }
  }
}

template <class Rule>
void enqueue_update(const UpdateOperands& o, const typename Rule::Choice& choice, const Launch& launch,
                    const char* name) {
  if (o.count == 0) return;
  const bool vectors = aligned({o.gradient, o.parameter, o.first, o.second, o.copy});
  const std::size_t each = std::size_t{kUpdateThreads} * kUpdateRounds * (vectors ? kVector : 1);
  update_kernel<Rule>
      <<<static_cast<unsigned>((o.count + each - 1) / each), kUpdateThreads, 0, launch.stream>>>(o, choice, vectors);
  check_launch(name);
}

}  // namespace zeroplan::kernels::cuda
