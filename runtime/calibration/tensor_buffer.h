// Values to measure with. Main types: FloatBuffer, TensorBuffer. Depends on kernels/ranges.
#pragma once

#include <cstddef>
#include <memory>

#include "models/core/dtype.h"

namespace zeroplan::runtime {

/// 64-byte aligned fp32 values between -1 and 1, the same in each run.
class FloatBuffer {
 public:
  explicit FloatBuffer(std::size_t count);
  float* data() { return data_.get(); }
  std::size_t size() const { return count_; }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::size_t count_;
  std::unique_ptr<float[], Free> data_;
};

/// The same values, rounded to fp32, bf16 or fp16.
class TensorBuffer {
 public:
  TensorBuffer(std::size_t count, DType dtype);
  void* data() { return bytes_.data(); }

 private:
  FloatBuffer bytes_;
};

}  // namespace zeroplan::runtime
