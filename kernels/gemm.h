// Matrix product C = op(A) op(B), the base of all linear layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"
#include "models/core/gemm_blocking.h"

namespace zeroplan::kernels {

/// C [m, n] = op(A) [m, k] op(B) [k, n] (+ C) (+ bias in each row). 2 m n k FLOPs. The sum over k runs in blocks of
/// kGemmInnerBlock, in order, whatever the number of workers.
struct Gemm {
  DType dtype = DType::kFp32;    ///< of a, b and bias
  DType c_dtype = DType::kFp32;  ///< of c
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  bool transpose_a = false;  ///< a is stored as [k, m]
  bool transpose_b = false;  ///< b is stored as [n, k]
  const void* a = nullptr;
  std::size_t a_stride = 0;
  const void* b = nullptr;
  std::size_t b_stride = 0;
  void* c = nullptr;
  std::size_t c_stride = 0;
  const void* bias = nullptr;  ///< [n], or none
  bool accumulate = false;
  void* workspace = nullptr;  ///< gemm_workspace_bytes(m, n, k, c_dtype), 64-byte aligned; cpu only
};

namespace reference {
void gemm(const Gemm& args);
}  // namespace reference

namespace cpu {
void gemm(const Gemm& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
