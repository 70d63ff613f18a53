// Elementwise operations and reductions over flat ranges. A range may be cut anywhere without changing a bit of the
// result, sums excepted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// out = a + b.
struct Add {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;  ///< may be a or b
};

/// x *= factor.
struct Scale {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  void* x = nullptr;
  float factor = 1;
};

/// x = value.
struct Fill {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  void* x = nullptr;
  float value = 0;
};

/// out = x, converted where the types differ (round to nearest even).
struct Copy {
  DType dtype = DType::kFp32;
  DType out_dtype = DType::kFp32;
  std::size_t count = 0;
  const void* x = nullptr;
  void* out = nullptr;  ///< must not overlap x
};

/// Sum of x^2 in double, over a tree that depends on `count` alone.
struct SumOfSquares {
  DType dtype = DType::kFp32;
  std::size_t count = 0;
  const void* x = nullptr;
};

namespace reference {
void add(const Add& args);
void scale(const Scale& args);
void fill(const Fill& args);
void copy(const Copy& args);
double sum_of_squares(const SumOfSquares& args);
}  // namespace reference

namespace cpu {
void add(const Add& args, Workers& workers);
void scale(const Scale& args, Workers& workers);
void fill(const Fill& args, Workers& workers);
void copy(const Copy& args, Workers& workers);
double sum_of_squares(const SumOfSquares& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
