// Elementwise kernels. Purpose: a body says what happens to N elements from i on; each element is computed by the same
// instructions whether alone or in a vector, so that a range may be cut anywhere. Depends on storage.cuh.
#pragma once

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/storage.cuh"

namespace zeroplan::kernels::cuda {

constexpr unsigned kElementwiseThreads = 256;

template <class Body>
__global__ void __launch_bounds__(kElementwiseThreads) vector_kernel(std::size_t count, Body body) {
  std::size_t i = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVector;
  if (i + kVector <= count) {
    body.template at<kVector>(i);
  } else {
    for (; i < count; ++i) body.template at<1>(i);
  }
}

template <class Body>
__global__ void __launch_bounds__(kElementwiseThreads) scalar_kernel(std::size_t count, Body body) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) body.template at<1>(i);
}

/// Calls body.at<N>(i) over [0, count); with vectors only if all pointers are 16-byte aligned.
template <class Body>
void for_each_element(std::size_t count, const Body& body, bool is_aligned, const Launch& launch, const char* name) {
  if (count == 0) return;
  const std::size_t each = is_aligned ? kElementwiseThreads * kVector : kElementwiseThreads;
  const auto blocks = static_cast<unsigned>((count + each - 1) / each);
  if (is_aligned) {
    vector_kernel<<<blocks, kElementwiseThreads, 0, launch.stream>>>(count, body);
  } else {
    scalar_kernel<<<blocks, kElementwiseThreads, 0, launch.stream>>>(count, body);
  }
  check_launch(name);
}

}  // namespace zeroplan::kernels::cuda
