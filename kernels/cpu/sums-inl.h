// Sums along rows and down columns in a fixed order, compiled once for each instruction set. To be included after
// hwy/highway.h only.
#if defined(ZEROPLAN_KERNELS_CPU_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROPLAN_KERNELS_CPU_SUMS_INL_H
#undef ZEROPLAN_KERNELS_CPU_SUMS_INL_H
#else
#define ZEROPLAN_KERNELS_CPU_SUMS_INL_H
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Sum of term(i, size) over [0, n) in four vectors of partial sums; each lane adds n / (4 lanes) terms, rounded up.
template <class Term>
HWY_INLINE float sum_over(std::size_t n, const Term& term) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  VF sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < 4; ++v) sum[v] = hn::Add(sum[v], term(i + v * lanes, Whole()));
  }
  for (; i + lanes <= n; i += lanes) sum[0] = hn::Add(sum[0], term(i, Whole()));
  if (i < n) {
    const Part size{n - i};
    sum[1] = hn::Add(sum[1], keep(term(i, size), hn::Zero(d), size));
  }
  return sum_of_lanes(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
}

/// Rows whose sum is gathered in registers before it is added to the result.
constexpr std::size_t kColumnChunk = 64;

/// out[c] (+)= sum over rows of term(row, c, size), for the columns given. Rows run in chunks of kColumnChunk, in
/// order, so the result depends on no other column.
template <class Term>
HWY_INLINE void sum_columns(std::size_t rows, IndexRange columns, float* out, bool accumulate, const Term& term) {
  for (std::size_t first = 0; first < rows; first += kColumnChunk) {
    const std::size_t last = std::min(rows, first + kColumnChunk);
    const bool adds = accumulate || first > 0;
    for_vectors(columns.begin, columns.end, [&](std::size_t c, auto size) HWY_ATTR {
      VF sum = term(first, c, size);
      for (std::size_t r = first + 1; r < last; ++r) sum = hn::Add(sum, term(r, c, size));
      store(adds ? hn::Add(load(out + c, size), sum) : sum, out + c, size);
    });
  }
}

/// Columns whose sums wait on the stack until they are rounded.
constexpr std::size_t kColumnBlock = 512;

/// Likewise into 16-bit storage: summed in fp32, rounded once.
template <class T, class Term>
HWY_INLINE void sum_columns(std::size_t rows, IndexRange columns, T* out, bool accumulate, const Term& term) {
  HWY_ALIGN float sums[kColumnBlock];
  for (std::size_t begin = columns.begin; begin < columns.end; begin += kColumnBlock) {
    const std::size_t count = std::min(kColumnBlock, columns.end - begin);
    sum_columns(rows, IndexRange{0, count}, sums, false,
                [&](std::size_t r, std::size_t c, auto size) HWY_ATTR { return term(r, begin + c, size); });
    for_vectors(0, count, [&](std::size_t c, auto size) HWY_ATTR {
      const VF sum = load(sums + c, size);
      store(accumulate ? hn::Add(load(out + begin + c, size), sum) : sum, out + begin + c, size);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
