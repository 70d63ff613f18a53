// Sums over the threads of a warp or a block, over a fixed tree. Depends on nothing.
#pragma once

namespace zeroplan::kernels::cuda {

constexpr unsigned kWholeWarp = 0xffffffffu;

/// The sum over the `Lanes` neighbouring lanes of each group, in every lane.
template <int Lanes = 32, class Value>
__device__ inline Value lanes_sum(Value value) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kWholeWarp, value, offset);
  return value;
}

/// The largest over the lanes of each group; a NaN may be lost.
template <int Lanes = 32>
__device__ inline float lanes_max(float value) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, offset));
  }
  return value;
}

/// The sum over a block of at most 1024 threads, a multiple of 32, in every thread. `scratch` holds 32 values; it may
/// be used again at once.
template <class Value>
__device__ inline Value block_sum(Value value, Value* scratch) {
  const unsigned warps = blockDim.x / 32;
  value = lanes_sum(value);
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = lanes_sum(threadIdx.x % 32 < warps ? scratch[threadIdx.x % 32] : Value(0));
  __syncthreads();
  return value;
}

}  // namespace zeroplan::kernels::cuda
