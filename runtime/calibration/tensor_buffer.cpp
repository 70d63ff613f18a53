#include "runtime/calibration/tensor_buffer.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/ranges.h"

namespace zeroplan::runtime {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

FloatBuffer::FloatBuffer(std::size_t count) : count_(count) {
  const std::size_t bytes =
      (std::max<std::size_t>(count, 1) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    data_[i] = static_cast<float>(state >> 8) / static_cast<float>(1u << 23) - 1.0f;
  }
}

void FloatBuffer::Free::operator()(float* data) const {
  std::free(data);
}

TensorBuffer::TensorBuffer(std::size_t count, DType dtype)
    : bytes_((count * size_of(dtype) + sizeof(float) - 1) / sizeof(float)) {
  if (dtype == DType::kFp32) return;
  FloatBuffer values(count);
  kernels::Workers alone(1);
  kernels::cpu::copy(
      {.dtype = DType::kFp32, .out_dtype = dtype, .count = count, .x = values.data(), .out = bytes_.data()}, alone);
}

}  // namespace zeroplan::runtime
