// exp, division and the logistic function as the storage type needs them. fp32 gets the accurate functions; 16-bit
// types the hardware's, whose error (2 units of fp32 and 2^-22 x |x|, CUDA C++ Programming Guide, appendix on
// mathematical functions) is far below their rounding. Depends on storage.cuh.
#pragma once

#include <type_traits>

#include "kernels/cuda/storage.cuh"

namespace zeroplan::kernels::cuda {

template <class T>
__device__ inline float exponential(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return __expf(x);
  }
}

template <class T>
__device__ inline float quotient(float a, float b) {
  if constexpr (std::is_same_v<T, float>) {
    return a / b;
  } else {
    return __fdividef(a, b);
  }
}

/// 1 / (1 + e^-x). Large |x| must not divide by infinity's neighbourhood: __fdividef gives 0 for divisors above 2^126,
/// which is the limit wanted.
template <class T>
__device__ inline float logistic(float x) {
  return quotient<T>(1.0f, 1.0f + exponential<T>(-x));
}

}  // namespace zeroplan::kernels::cuda
