// The register tile of all matrix products, compiled once for each instruction set. To be included after hwy/highway.h
// only.
#if defined(ZEROPLAN_KERNELS_CPU_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROPLAN_KERNELS_CPU_TILE_INL_H
#undef ZEROPLAN_KERNELS_CPU_TILE_INL_H
#else
#define ZEROPLAN_KERNELS_CPU_TILE_INL_H
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Rows and vectors of the tile: as many accumulators as the registers hold beside the operands.
#if HWY_TARGET <= HWY_AVX3
constexpr int kTileRows = 12;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 4;
#endif
constexpr int kTileVectors = 2;

/// Operand A of a tile: element (i, p) at data[i * row + p * step].
struct TileA {
  const float* data;
  std::size_t row;
  std::size_t step;
};

/// sum[r][v] = sum over p < k of a(r, p) x b[p * b_step + v * lanes ...], in order of p, each product fused into its
/// sum. Any lane of any tile shape runs the same operations, so a product does not depend on how the result is cut into
/// tiles.
template <int kRows, int kVectors>
HWY_INLINE void tile_product(std::size_t k, const TileA& a, const float* HWY_RESTRICT b, std::size_t b_step,
                             VF (&sum)[kRows][kVectors]) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  VF local[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) local[r][v] = hn::Zero(d);
  }
  const float* HWY_RESTRICT at = a.data;
#pragma GCC unroll 4
  for (std::size_t p = 0; p < k; ++p) {
    VF column[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + static_cast<std::size_t>(v) * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const VF value = hn::Set(d, at[static_cast<std::size_t>(r) * a.row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) local[r][v] = hn::MulAdd(value, column[v], local[r][v]);
    }
    at += a.step;
    b += b_step;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = local[r][v];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
