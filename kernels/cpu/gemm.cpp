#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/gemm.h"

#include "kernels/cpu/tile-inl.h"

// Blocked as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication": a block of B, packed by all
// workers into the workspace, stays in the outer caches; each worker packs blocks of A on its stack; a tile of C lives
// in registers.
#ifndef ZEROPLAN_KERNELS_CPU_GEMM_BLOCK
#define ZEROPLAN_KERNELS_CPU_GEMM_BLOCK
namespace zeroplan::kernels::cpu {

/// The block of B that is packed, and what becomes of its product.
struct GemmBlock {
  std::size_t first_column = 0;
  std::size_t columns = 0;  ///< not padded
  std::size_t first_inner = 0;
  std::size_t inner = 0;
  bool adds = false;      ///< to fp32 C: a later block, or the caller accumulates
  bool is_first = false;  ///< of the inner blocks
  bool is_last = false;   ///< of the inner blocks: adds the bias
  std::size_t first_row = 0;
  float* sums = nullptr;  ///< with 16-bit C: what the inner blocks before gave, [rows from first_row on, sums_stride]
  std::size_t sums_stride = 0;
};

/// Rows of A packed at once on a worker's stack; a multiple of every target's tile rows.
constexpr std::size_t kGemmRowBlock = 96;
/// Rows and columns at which work is cut between workers; multiples of every target's tile.
constexpr std::size_t kGemmRowGranule = 12;

}  // namespace zeroplan::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Packs columns [begin, end) of the block, multiples of kGemmColumnPad, as panels of the tile's width; zeros beyond
/// the last column.
template <class T>
void pack_b_as(const Gemm& args, const GemmBlock& block, IndexRange range, float* packed) {
  const std::size_t width = kTileVectors * hn::Lanes(F32());
  const T* b = static_cast<const T*>(args.b);
  for (std::size_t j = range.begin; j < range.end; j += width) {
    float* HWY_RESTRICT panel = packed + j * block.inner;
    const std::size_t present = j >= block.columns ? 0 : std::min(width, block.columns - j);
    const std::size_t column = block.first_column + j;
    if (args.transpose_b) {
      for (std::size_t c = 0; c < present; ++c) {
        const T* HWY_RESTRICT from = b + (column + c) * args.b_stride + block.first_inner;
        for (std::size_t p = 0; p < block.inner; ++p) panel[p * width + c] = to_float(from[p]);
      }
      for (std::size_t p = 0; p < block.inner; ++p) {
        for (std::size_t c = present; c < width; ++c) panel[p * width + c] = 0;
      }
    } else {
      for (std::size_t p = 0; p < block.inner; ++p) {
        const T* HWY_RESTRICT from = b + (block.first_inner + p) * args.b_stride + column;
        float* HWY_RESTRICT to = panel + p * width;
        if (present == width) {
          for (std::size_t c = 0; c < width; c += hn::Lanes(F32())) store(load(from + c, Whole()), to + c, Whole());
          continue;
        }
        for (std::size_t c = 0; c < present; ++c) to[c] = to_float(from[c]);
        for (std::size_t c = present; c < width; ++c) to[c] = 0;
      }
    }
  }
}

void pack_b(const Gemm& args, const GemmBlock& block, IndexRange range, float* packed) {
  with_storage(args.dtype, [&]<class T>(T) { pack_b_as<T>(args, block, range, packed); });
}

/// Packs rows [first, first + rows) of A as panels of kTileRows rows, zeros beyond the last row.
template <class T>
void pack_a_as(const Gemm& args, const GemmBlock& block, std::size_t first, std::size_t rows,
               float* HWY_RESTRICT packed) {
  const T* a = static_cast<const T*>(args.a);
  for (std::size_t i = 0; i < rows; i += kTileRows) {
    float* HWY_RESTRICT panel = packed + i * block.inner;
    const std::size_t present = std::min<std::size_t>(kTileRows, rows - i);
    if (args.transpose_a) {
      for (std::size_t p = 0; p < block.inner; ++p) {
        const T* HWY_RESTRICT from = a + (block.first_inner + p) * args.a_stride + first + i;
        for (std::size_t r = 0; r < present; ++r) panel[p * kTileRows + r] = to_float(from[r]);
        for (std::size_t r = present; r < kTileRows; ++r) panel[p * kTileRows + r] = 0;
      }
    } else {
      for (std::size_t r = 0; r < present; ++r) {
        const T* HWY_RESTRICT from = a + (first + i + r) * args.a_stride + block.first_inner;
        for (std::size_t p = 0; p < block.inner; ++p) panel[p * kTileRows + r] = to_float(from[p]);
      }
      for (std::size_t r = present; r < kTileRows; ++r) {
        for (std::size_t p = 0; p < block.inner; ++p) panel[p * kTileRows + r] = 0;
      }
    }
  }
}

template <class Size>
HWY_INLINE VF with_bias(const Gemm& args, VF sum, std::size_t column, Size size) {
  if (args.dtype == DType::kFp32) return hn::Add(sum, load(static_cast<const float*>(args.bias) + column, size));
  if (args.dtype == DType::kBf16) return hn::Add(sum, load(static_cast<const Bf16*>(args.bias) + column, size));
  return hn::Add(sum, load(static_cast<const Fp16*>(args.bias) + column, size));
}

/// One vector of C in row `row`: set or added to, with the bias after the last block.
template <class Size>
HWY_INLINE void finish_vector(const Gemm& args, const GemmBlock& block, VF sum, float* c, std::size_t,
                              std::size_t column, Size size) {
  if (block.adds) sum = hn::Add(load(c, size), sum);
  if (block.is_last && args.bias != nullptr) sum = with_bias(args, sum, column, size);
  store(sum, c, size);
}
/// Likewise in 16 bits: the blocks' sums stay in fp32 until the last one, and are rounded once.
template <class C, class Size>
HWY_INLINE void finish_vector(const Gemm& args, const GemmBlock& block, VF sum, C* c, std::size_t row,
                              std::size_t column, Size size) {
  float* sums = block.sums + (row - block.first_row) * block.sums_stride + (column - block.first_column);
  if (!block.is_first) sum = hn::Add(load(sums, size), sum);
  if (!block.is_last) {
    store(sum, sums, size);
    return;
  }
  if (args.accumulate) sum = hn::Add(load(c, size), sum);
  if (args.bias != nullptr) sum = with_bias(args, sum, column, size);
  store(sum, c, size);
}

/// C of `rows` x `columns` (of the block) from packed A and B.
template <class C>
void multiply_into(const Gemm& args, const GemmBlock& block, IndexRange rows, IndexRange columns,
                   const float* packed_b) {
  HWY_ALIGN float packed_a[kGemmRowBlock * kGemmInnerBlock];
  const std::size_t lanes = hn::Lanes(F32());
  const std::size_t width = kTileVectors * lanes;
  const std::size_t last_column = std::min(columns.end, block.columns);
  for (std::size_t first = rows.begin; first < rows.end; first += kGemmRowBlock) {
    const std::size_t count = std::min(kGemmRowBlock, rows.end - first);
    with_storage(args.dtype, [&]<class T>(T) { pack_a_as<T>(args, block, first, count, packed_a); });
    for (std::size_t j = columns.begin; j < last_column; j += width) {
      const float* panel = packed_b + j * block.inner;
      for (std::size_t i = 0; i < count; i += kTileRows) {
        const std::size_t present = std::min<std::size_t>(kTileRows, count - i);
        const std::size_t column = block.first_column + j;
        C* c = static_cast<C*>(args.c) + (first + i) * args.c_stride + column;
        // C is touched once per block: asked for now, it is there when the product is done.
        for (std::size_t r = 0; r < present; ++r) __builtin_prefetch(c + r * args.c_stride);
        VF sum[kTileRows][kTileVectors];
        tile_product<kTileRows, kTileVectors>(block.inner, TileA{packed_a + i * block.inner, 1, kTileRows}, panel,
                                              width, sum);
        if (present == kTileRows && j + width <= last_column) {
#pragma GCC unroll 16
          for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < kTileVectors; ++v) {
              const std::size_t shift = static_cast<std::size_t>(v) * lanes;
              const std::size_t row = static_cast<std::size_t>(r);
              finish_vector(args, block, sum[r][v], c + row * args.c_stride + shift, first + i + row, column + shift,
                            Whole());
            }
          }
          continue;
        }
        // The edge: the tile goes through the stack.
        HWY_ALIGN float edge[kTileRows * kTileVectors * kMaxLanes];
#pragma GCC unroll 16
        for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
          for (int v = 0; v < kTileVectors; ++v) {
            hn::Store(sum[r][v], F32(), edge + static_cast<std::size_t>(r * kTileVectors + v) * lanes);
          }
        }
        const std::size_t present_columns = std::min(width, last_column - j);
        for (std::size_t r = 0; r < present; ++r) {
          for_vectors(0, present_columns, [&](std::size_t at, auto size) HWY_ATTR {
            finish_vector(args, block, hn::Load(F32(), edge + r * width + at), c + r * args.c_stride + at,
                          first + i + r, column + at, size);
          });
        }
      }
    }
  }
}

void multiply(const Gemm& args, const GemmBlock& block, IndexRange rows, IndexRange columns, const float* packed_b) {
  with_storage(args.c_dtype, [&]<class C>(C) { multiply_into<C>(args, block, rows, columns, packed_b); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(pack_b);
HWY_EXPORT(multiply);

std::size_t padded_columns(const GemmBlock& block) {
  return (block.columns + kGemmColumnPad - 1) / kGemmColumnPad * kGemmColumnPad;
}

/// C of the rows given and the block's columns from A and the packed B.
void multiply_rows(const Gemm& args, const GemmBlock& block, IndexRange rows, const float* packed, Workers& workers) {
  const std::size_t count = rows.end - rows.begin;
  // Few rows: cut the columns instead.
  if (count < kGemmRowGranule * static_cast<std::size_t>(workers.count())) {
    workers.run_ranges(padded_columns(block), kGemmColumnPad, [&](IndexRange range) {
      HWY_DYNAMIC_DISPATCH(multiply)(args, block, rows, range, packed);
    });
    return;
  }
  workers.run_ranges(count, kGemmRowGranule, [&](IndexRange range) {
    const IndexRange part{rows.begin + range.begin, rows.begin + range.end};
    HWY_DYNAMIC_DISPATCH(multiply)(args, block, part, IndexRange{0, padded_columns(block)}, packed);
  });
}

}  // namespace

void gemm(const Gemm& args, Workers& workers) {
  require_result(args.c_dtype, args.dtype);
  ZP_CHECK(args.k > 0);
  float* packed = static_cast<float*>(args.workspace);
  const std::size_t inner_block = gemm_inner_block(args.k);
  const std::size_t row_block = gemm_row_block(args.m, args.k, args.c_dtype);
  for (std::size_t column = 0; column < args.n; column += kGemmColumnBlock) {
    GemmBlock block{.first_column = column, .columns = std::min<std::size_t>(kGemmColumnBlock, args.n - column)};
    block.sums = packed + gemm_packed_bytes(args.n, args.k).count() / sizeof(float);
    block.sums_stride = std::min<std::size_t>(kGemmColumnBlock, args.n);
    for (std::size_t row = 0; row < args.m; row += row_block) {
      block.first_row = row;
      for (std::size_t inner = 0; inner < args.k; inner += inner_block) {
        block.first_inner = inner;
        block.inner = std::min(inner_block, args.k - inner);
        block.is_first = inner == 0;
        block.adds = args.accumulate || inner > 0;
        block.is_last = inner + inner_block >= args.k;
        workers.run_ranges(padded_columns(block), kGemmColumnPad, [&](IndexRange range) {
          HWY_DYNAMIC_DISPATCH(pack_b)(args, block, range, packed);
        });
        multiply_rows(args, block, IndexRange{row, std::min(args.m, row + row_block)}, packed, workers);
      }
    }
  }
}

}  // namespace zeroplan::kernels::cpu
#endif
