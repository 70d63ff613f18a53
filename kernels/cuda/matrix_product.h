// What is multiplied, and in how many products. Main types: MatrixProduct, ProductParts. Needs no CUDA.
#pragma once

#include <array>
#include <cstddef>

#include "models/core/dtype.h"

namespace zeroplan::kernels::cuda {

/// C [m, n] = op(A) [m, k] op(B) [k, n] (+ C) (+ bias in each row), row by row as in kernels/gemm.h; strides are not 0.
struct MatrixProduct {
  DType dtype = DType::kFp32;
  DType c_dtype = DType::kFp32;
  std::size_t m = 0, n = 0, k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  const void* a = nullptr;
  std::size_t a_stride = 0;
  const void* b = nullptr;
  std::size_t b_stride = 0;
  void* c = nullptr;
  std::size_t c_stride = 0;
  const void* bias = nullptr;
  bool accumulate = false;
};

/// One or two products that together are one.
class ProductParts {
 public:
  explicit ProductParts(const MatrixProduct& only) : parts_{only}, count_(1) {}
  ProductParts(const MatrixProduct& first, const MatrixProduct& second) : parts_{first, second}, count_(2) {}
  const MatrixProduct* begin() const { return parts_.data(); }
  const MatrixProduct* end() const { return parts_.data() + count_; }

 private:
  std::array<MatrixProduct, 2> parts_;
  std::size_t count_;
};

namespace detail {

inline const void* moved(const void* base, std::size_t elements, DType type) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + elements * size_of(type);
}

/// The columns of C from `first` on.
inline MatrixProduct columns_of(MatrixProduct p, std::size_t first, std::size_t count) {
  p.b = moved(p.b, p.transpose_b ? first * p.b_stride : first, p.dtype);
  p.c = const_cast<void*>(moved(p.c, first, p.c_dtype));
  p.bias = moved(p.bias, first, p.dtype);
  p.n = count;
  return p;
}

inline MatrixProduct rows_of(MatrixProduct p, std::size_t first, std::size_t count) {
  p.a = moved(p.a, p.transpose_a ? first : first * p.a_stride, p.dtype);
  p.c = const_cast<void*>(moved(p.c, first * p.c_stride, p.c_dtype));
  p.m = count;
  return p;
}

/// The terms of the sums from `first` on, added where C is not complete without the others.
inline MatrixProduct terms_of(MatrixProduct p, std::size_t first, std::size_t count, bool adds) {
  p.a = moved(p.a, p.transpose_a ? first * p.a_stride : first, p.dtype);
  p.b = moved(p.b, p.transpose_b ? first : first * p.b_stride, p.dtype);
  p.k = count;
  if (adds) p.accumulate = true;
  return p;
}

}  // namespace detail

/// The fast algorithms of cuBLASLt want the extents along which memory is contiguous to be multiples of 8. A large
/// extent that is not (GPT-2's vocabulary: 50257) is cut in two: 50256 and 1. Where that cuts the sums, the small part
/// comes first, so that what it is rounded to matters as little as it does itself. To be computed in this order.
inline ProductParts product_parts(const MatrixProduct& p) {
  constexpr std::size_t kAligned = 8;
  constexpr std::size_t kLarge = 1024;
  const auto cuts = [](std::size_t extent) { return extent > kLarge && extent % kAligned != 0; };
  const auto whole = [](std::size_t extent) { return extent / kAligned * kAligned; };
  if (cuts(p.n)) return {detail::columns_of(p, 0, whole(p.n)), detail::columns_of(p, whole(p.n), p.n - whole(p.n))};
  if (p.transpose_a && cuts(p.m))
    return {detail::rows_of(p, 0, whole(p.m)), detail::rows_of(p, whole(p.m), p.m - whole(p.m))};
  if ((!p.transpose_a || p.transpose_b) && p.bias == nullptr && cuts(p.k)) {
    return {detail::terms_of(p, whole(p.k), p.k - whole(p.k), false), detail::terms_of(p, 0, whole(p.k), true)};
  }
  return ProductParts(p);
}

}  // namespace zeroplan::kernels::cuda
