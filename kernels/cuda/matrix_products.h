// Matrix products by cuBLASLt. Purpose: descriptors and the algorithm of each shape are chosen once. Main types:
// MatrixProduct (what is multiplied), MatrixProducts (the handle and what was chosen). Belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cuda/context.h"
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

/// The cuBLASLt handle and the algorithm of each shape seen. Sums are fp32; an algorithm that splits k adds the parts
/// in fp32 in the workspace. Where cuBLASLt knows no algorithm, a plain tiled kernel runs.
///
/// The fast algorithms want the extents along which memory is contiguous to be multiples of 8. A large extent that is
/// not (GPT-2's vocabulary: 50257) is cut in two: 50256 and 1. Where that cuts the sum, the small part comes first, so
/// that what it is rounded to matters as little as it does itself.
class MatrixProducts {
 public:
  explicit MatrixProducts(const ContextOptions& options);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  void prepare(const MatrixProduct& product);
  void enqueue(const MatrixProduct& product, const Launch& launch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The plain kernel: any extents and alignment.
void enqueue_plain_product(const MatrixProduct& product, const Launch& launch);

}  // namespace zeroplan::kernels::cuda
