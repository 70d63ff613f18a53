#include "kernels/ranges.h"

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void add(const Add& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    store(args.dtype, args.out, i, load(args.dtype, args.a, i) + load(args.dtype, args.b, i));
  }
}

void scale(const Scale& args) {
  for (std::size_t i = 0; i < args.count; ++i) store(args.dtype, args.x, i, load(args.dtype, args.x, i) * args.factor);
}

void fill(const Fill& args) {
  for (std::size_t i = 0; i < args.count; ++i) store(args.dtype, args.x, i, args.value);
}

void copy(const Copy& args) {
  for (std::size_t i = 0; i < args.count; ++i) store(args.out_dtype, args.out, i, load(args.dtype, args.x, i));
}

double sum_of_squares(const SumOfSquares& args) {
  double sum = 0;
  for (std::size_t i = 0; i < args.count; ++i) sum += load(args.dtype, args.x, i) * load(args.dtype, args.x, i);
  return sum;
}

}  // namespace zeroplan::kernels::reference
