// Matrix products by cuBLASLt. Purpose: descriptors and the algorithm of each shape are chosen once. Main type:
// MatrixProducts (the handle and what was chosen). Belongs to one thread.
#pragma once

#include <memory>

#include "kernels/cuda/context.h"
#include "kernels/cuda/matrix_product.h"

namespace zeroplan::kernels::cuda {

/// The cuBLASLt handle and the algorithm of each shape seen. Sums are fp32; an algorithm that splits k adds the parts
/// in fp32 in the workspace. Where cuBLASLt knows no algorithm, a plain tiled kernel runs.
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
