// Blocks of attention operands in fp32, compiled once for each instruction set. To be included after hwy/highway.h
// only.
#if defined(ZEROPLAN_KERNELS_CPU_ATTENTION_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROPLAN_KERNELS_CPU_ATTENTION_BLOCK_INL_H
#undef ZEROPLAN_KERNELS_CPU_ATTENTION_BLOCK_INL_H
#else
#define ZEROPLAN_KERNELS_CPU_ATTENTION_BLOCK_INL_H
#endif

#include "kernels/attention.h"
#include "kernels/cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Queries and keys of a block: a multiple of every target's tile rows and tile width.
constexpr std::size_t kBlock = 96;
constexpr std::size_t kBlockElements = kBlock * kMaxHeadSize;

HWY_INLINE std::size_t padded(std::size_t n) {
  const std::size_t width = kTileVectors * hn::Lanes(F32());
  return (n + width - 1) / width * width;
}

/// Rows of fp32 values.
struct Rows {
  const float* data;
  std::size_t step;
};

/// `rows` rows of `size` elements as fp32, readable up to padded(size): where they lie if they can be used there, else
/// copied, with zeros.
HWY_INLINE Rows fetch(const float* from, std::size_t stride, std::size_t rows, std::size_t size, float* buffer) {
  const std::size_t step = padded(size);
  if (step == size) return {from, stride};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < size; ++i) buffer[r * step + i] = from[r * stride + i];
    for (std::size_t i = size; i < step; ++i) buffer[r * step + i] = 0;
  }
  return {buffer, step};
}
template <class T>
HWY_INLINE Rows fetch(const T* from, std::size_t stride, std::size_t rows, std::size_t size, float* buffer) {
  const std::size_t step = padded(size);
  for (std::size_t r = 0; r < rows; ++r) {
    for_vectors(0, size, [&](std::size_t i, auto part) HWY_ATTR {
      store(load(from + r * stride + i, part), buffer + r * step + i, part);
    });
    for (std::size_t i = size; i < step; ++i) buffer[r * step + i] = 0;
  }
  return {buffer, step};
}

/// to[size][kBlock] = the transpose of `rows` rows, with zeros in the columns up to padded(rows).
template <class T>
HWY_INLINE void transpose(const T* from, std::size_t stride, std::size_t rows, std::size_t size,
                          float* HWY_RESTRICT to) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < size; ++i) to[i * kBlock + r] = to_float(from[r * stride + i]);
  }
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t r = rows; r < padded(rows); ++r) to[i * kBlock + r] = 0;
  }
}

/// Which keys of a block a query sees, by their distance: query - key in [0, window).
struct Visibility {
  bool is_diagonal = false;  ///< the block's queries and keys have the same positions
  bool is_edge = false;      ///< some of the keys are too old for some of the queries
  std::size_t distance = 0;  ///< first query - first key
  std::size_t window = 0;    ///< 0: no limit

  bool is_masked() const { return is_diagonal || is_edge; }
};

HWY_INLINE Visibility visibility_of(const AttentionShape& shape, std::size_t first_query, std::size_t queries,
                                    std::size_t first_key) {
  Visibility result{
      .is_diagonal = first_query == first_key, .distance = first_query - first_key, .window = shape.window};
  result.is_edge = shape.window > 0 && first_query + queries - first_key > shape.window;
  return result;
}

/// The first block of keys that any query from `first_query` on may see.
HWY_INLINE std::size_t first_key_block(const AttentionShape& shape, std::size_t first_query) {
  if (shape.window == 0 || first_query + 1 <= shape.window) return 0;
  return (first_query + 1 - shape.window) / kBlock * kBlock;
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
