// Elements of any storage type read and written as fp32, one at a time or in 16-byte accesses. Purpose: every kernel
// is a template over the storage type. Main types: Floats, Tag. Depends on models/core only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "models/core/dtype.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cuda {

/// Elements that a thread handles at once where the pointers allow it: one 16-byte access of a 16-bit type, two of
/// fp32.
constexpr int kVector = 8;

/// N values in registers.
template <int N>
struct Floats {
  float v[N];
};

__device__ inline float widen(float x) {
  return x;
}
__device__ inline float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline float widen(__half x) {
  return __half2float(x);
}

/// Rounded to nearest even.
template <class T>
__device__ inline T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}

/// 16 bytes of elements.
template <class T>
struct alignas(16) Pack {
  T v[16 / sizeof(T)];
};

/// N elements from `from`, which is 16-byte aligned unless N is 1.
template <int N, class T>
__device__ inline Floats<N> load(const T* from) {
  Floats<N> result;
  if constexpr (N == 1) {
    result.v[0] = widen(*from);
  } else {
    constexpr int kEach = 16 / sizeof(T);
    static_assert(N % kEach == 0);
#pragma unroll
    for (int part = 0; part < N / kEach; ++part) {
      const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(from + part * kEach);
#pragma unroll
      for (int i = 0; i < kEach; ++i) result.v[part * kEach + i] = widen(pack.v[i]);
    }
  }
  return result;
}

/// The reverse of load.
template <int N, class T>
__device__ inline void store(T* to, const Floats<N>& values) {
  if constexpr (N == 1) {
    *to = narrow<T>(values.v[0]);
  } else {
    constexpr int kEach = 16 / sizeof(T);
#pragma unroll
    for (int part = 0; part < N / kEach; ++part) {
      Pack<T> pack;
#pragma unroll
      for (int i = 0; i < kEach; ++i) pack.v[i] = narrow<T>(values.v[part * kEach + i]);
      *reinterpret_cast<Pack<T>*>(to + part * kEach) = pack;
    }
  }
}

/// Sets, or adds to what is there.
template <int N, class T>
__device__ inline void put(T* to, Floats<N> values, bool accumulate) {
  if (accumulate) {
    const Floats<N> before = load<N>(to);
#pragma unroll
    for (int i = 0; i < N; ++i) values.v[i] += before.v[i];
  }
  store<N>(to, values);
}

/// Carries a type to a generic lambda.
template <class T>
struct Tag {
  using Type = T;
};

/// Calls function(Tag<T>{}) for the storage type. \throws Error{kUnsupported}
template <class Function>
void with_type(DType type, Function function) {
  switch (type) {
    case DType::kFp32:
      return function(Tag<float>{});
    case DType::kBf16:
      return function(Tag<__nv_bfloat16>{});
    case DType::kFp16:
      return function(Tag<__half>{});
    default:
      throw Error(ErrorCode::kUnsupported, "no CUDA kernel for elements of type " + std::string(to_string(type)));
  }
}

/// Whether every pointer allows 16-byte accesses; null does.
inline bool aligned(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 0;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return bits % 16 == 0;
}

inline std::size_t stride_or(std::size_t stride, std::size_t dense) {
  return stride == 0 ? dense : stride;
}

}  // namespace zeroplan::kernels::cuda
