// Small products on the stack, tile by tile, for attention; compiled once for each instruction set. To be included
// after hwy/highway.h only.
#if defined(ZEROPLAN_KERNELS_CPU_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROPLAN_KERNELS_CPU_PRODUCT_INL_H
#undef ZEROPLAN_KERNELS_CPU_PRODUCT_INL_H
#else
#define ZEROPLAN_KERNELS_CPU_PRODUCT_INL_H
#endif

#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Which part of a product is needed; in a block on the diagonal, what the causal mask leaves.
enum class Triangle {
  kAll,
  kLowerResult,  ///< C[i][j] only for j <= i
  kUpperResult,  ///< C[i][j] only for j >= i
  kLowerA,       ///< A[i][p] is zero for p > i
  kUpperA,       ///< A[i][p] is zero for p < i
};

/// C [rows, columns] (+)= A [rows, inner] B [inner, columns]. `columns` is a multiple of the tile's width.
struct Product {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t inner = 0;
  TileA a = {};
  const float* b = nullptr;
  std::size_t b_step = 0;
  float* c = nullptr;
  std::size_t c_step = 0;
  bool adds = false;
  Triangle triangle = Triangle::kAll;
};

template <int kRows>
HWY_INLINE void product_rows(const Product& args, std::size_t i) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = kTileVectors * lanes;
  const std::size_t past = i + kRows;
  const std::size_t first_column = args.triangle == Triangle::kUpperResult ? i / width * width : 0;
  const std::size_t last_column = args.triangle == Triangle::kLowerResult ? std::min(args.columns, past) : args.columns;
  const std::size_t first_inner = args.triangle == Triangle::kUpperA ? std::min(i, args.inner) : 0;
  const std::size_t last_inner = args.triangle == Triangle::kLowerA ? std::min(args.inner, past) : args.inner;
  const TileA a{args.a.data + i * args.a.row + first_inner * args.a.step, args.a.row, args.a.step};
  for (std::size_t j = first_column; j < last_column; j += width) {
    VF sum[kRows][kTileVectors];
    tile_product<kRows, kTileVectors>(last_inner - first_inner, a, args.b + first_inner * args.b_step + j, args.b_step,
                                      sum);
    float* c = args.c + i * args.c_step + j;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        float* at = c + static_cast<std::size_t>(r) * args.c_step + static_cast<std::size_t>(v) * lanes;
        hn::StoreU(args.adds ? hn::Add(hn::LoadU(d, at), sum[r][v]) : sum[r][v], d, at);
      }
    }
  }
}

inline HWY_NOINLINE void product(const Product& args) {
  std::size_t i = 0;
  for (; i + kTileRows <= args.rows; i += kTileRows) product_rows<kTileRows>(args, i);
  for (; i + 4 <= args.rows; i += 4) product_rows<4>(args, i);
  for (; i < args.rows; ++i) product_rows<1>(args, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
