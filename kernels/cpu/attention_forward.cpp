#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_forward.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include <cmath>

#include "kernels/attention.h"
#include "kernels/cpu/attention_block-inl.h"

// Streaming softmax over blocks of keys (Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135).
// Scores are computed transposed, keys down and queries across: the softmax then runs on whole vectors of queries, and
// no key is ever transposed.

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// Below any score, and finite so that differences stay numbers.
constexpr float kLowest = -1e30f;

/// Running maximum and sum of each query's softmax.
struct Softmax {
  HWY_ALIGN float largest[kBlock];
  HWY_ALIGN float sum[kBlock];
  HWY_ALIGN float rescale[kBlock];  ///< of what was summed before this block of keys
};

/// Turns transposed scores [keys][kBlock] into probabilities relative to the new maximum.
HWY_INLINE void soften(const Visibility& visible, float scale, std::size_t keys, std::size_t columns, float* scores,
                       Softmax& state) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const VF scale_lanes = hn::Set(d, scale);
  const VF lowest = hn::Set(d, kLowest);
  for (std::size_t c = 0; c < columns; c += lanes) {
    // In a block on the diagonal, no lane sees a key beyond the last lane's position.
    const std::size_t seen = visible.is_diagonal ? std::min(keys, c + lanes) : keys;
    const VF query = hn::Add(hn::Set(d, static_cast<float>(visible.distance + c)), hn::Iota(d, 0));
    const VF window = hn::Set(d, static_cast<float>(visible.window));
    const auto is_visible = [&](std::size_t key) HWY_ATTR {
      const VF distance = hn::Sub(query, hn::Set(d, static_cast<float>(key)));
      const auto not_later = hn::Ge(distance, hn::Zero(d));
      return visible.window == 0 ? not_later : hn::And(not_later, hn::Lt(distance, window));
    };
    const VF old = hn::Load(d, state.largest + c);
    VF largest = old;
    for (std::size_t key = 0; key < seen; ++key) {
      VF score = hn::Mul(hn::Load(d, scores + key * kBlock + c), scale_lanes);
      if (visible.is_masked()) score = hn::IfThenElse(is_visible(key), score, lowest);
      largest = hn::Max(largest, score);
    }
    VF sum = hn::Zero(d);
    for (std::size_t key = 0; key < seen; ++key) {
      float* at = scores + key * kBlock + c;
      VF p = exponential(hn::MulSub(hn::Load(d, at), scale_lanes, largest));
      if (visible.is_masked()) p = hn::IfThenElseZero(is_visible(key), p);
      sum = hn::Add(sum, p);
      hn::Store(p, d, at);
    }
    for (std::size_t key = seen; key < keys; ++key) hn::Store(hn::Zero(d), d, scores + key * kBlock + c);
    const VF rescale = exponential(hn::Sub(old, largest));
    hn::Store(largest, d, state.largest + c);
    hn::Store(hn::MulAdd(hn::Load(d, state.sum + c), rescale, sum), d, state.sum + c);
    hn::Store(rescale, d, state.rescale + c);
  }
}

template <class T>
void forward_block(const AttentionForward& args, std::size_t sequence, std::size_t head, std::size_t first_query) {
  const F32 d;
  const AttentionShape& shape = args.shape;
  const std::size_t size = shape.head_size;
  const std::size_t step = padded(size);
  const std::size_t q_stride = stride_or(args.q_stride, shape.heads * size);
  const std::size_t k_stride = stride_or(args.k_stride, shape.kv_heads * size);
  const std::size_t v_stride = stride_or(args.v_stride, shape.kv_heads * size);
  const std::size_t out_stride = stride_or(args.out_stride, shape.heads * size);
  const std::size_t kv_column = head / (shape.heads / shape.kv_heads) * size;
  const std::size_t first_row = sequence * shape.sequence_length;
  const std::size_t queries = std::min(kBlock, shape.sequence_length - first_query);
  const std::size_t columns = padded(queries);

  HWY_ALIGN float query_columns[kBlockElements];
  HWY_ALIGN float scores[kBlock * kBlock];
  HWY_ALIGN float out[kBlockElements];
  HWY_ALIGN float key_copy[kBlockElements];
  HWY_ALIGN float value_copy[kBlockElements];
  Softmax state;
  for (std::size_t i = 0; i < kBlock; ++i) {
    state.largest[i] = kLowest;
    state.sum[i] = 0;
  }
  transpose(static_cast<const T*>(args.q) + (first_row + first_query) * q_stride + head * size, q_stride, queries, size,
            query_columns);
  const std::size_t start = first_key_block(shape, first_query);
  for (std::size_t first_key = start; first_key <= first_query; first_key += kBlock) {
    const std::size_t keys = std::min(kBlock, shape.sequence_length - first_key);
    const Visibility visible = visibility_of(shape, first_query, queries, first_key);
    const std::size_t key_row = first_row + first_key;
    const Rows k =
        fetch(static_cast<const T*>(args.k) + key_row * k_stride + kv_column, k_stride, keys, size, key_copy);
    const Rows v =
        fetch(static_cast<const T*>(args.v) + key_row * v_stride + kv_column, v_stride, keys, size, value_copy);
    product({.rows = keys,
             .columns = columns,
             .inner = size,
             .a = {k.data, k.step, 1},
             .b = query_columns,
             .b_step = kBlock,
             .c = scores,
             .c_step = kBlock,
             .triangle = visible.is_diagonal ? Triangle::kUpperResult : Triangle::kAll});
    soften(visible, shape.scale, keys, columns, scores, state);
    const bool adds = first_key > start;
    for (std::size_t i = 0; adds && i < queries; ++i) {
      const VF factor = hn::Set(d, state.rescale[i]);
      for (std::size_t c = 0; c < step; c += hn::Lanes(d)) {
        hn::Store(hn::Mul(hn::Load(d, out + i * step + c), factor), d, out + i * step + c);
      }
    }
    product({.rows = queries,
             .columns = step,
             .inner = keys,
             .a = {scores, 1, kBlock},
             .b = v.data,
             .b_step = v.step,
             .c = out,
             .c_step = step,
             .adds = adds,
             .triangle = visible.is_diagonal ? Triangle::kLowerA : Triangle::kAll});
  }
  for (std::size_t i = 0; i < queries; ++i) {
    const std::size_t row = first_row + first_query + i;
    args.lse[row * shape.heads + head] = state.largest[i] + std::log(state.sum[i]);
    const VF total = hn::Set(d, state.sum[i]);
    T* to = static_cast<T*>(args.out) + row * out_stride + head * size;
    for_vectors(0, size, [&](std::size_t c, auto part) HWY_ATTR {
      store(hn::Div(hn::Load(d, out + i * step + c), total), to + c, part);
    });
  }
}

void attention_forward_block(const AttentionForward& args, std::size_t sequence, std::size_t head,
                             std::size_t first_query) {
  with_storage(args.shape.dtype, [&]<class T>(T) { forward_block<T>(args, sequence, head, first_query); });
}

std::size_t attention_block() {
  return kBlock;
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(attention_forward_block);
HWY_EXPORT(attention_block);

}  // namespace

void attention_forward(const AttentionForward& args, Workers& workers) {
  const AttentionShape& shape = args.shape;
  require_storage(shape.dtype);
  ZP_CHECK(shape.head_size > 0 && shape.head_size <= kMaxHeadSize);
  ZP_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  const std::size_t block = HWY_DYNAMIC_DISPATCH(attention_block)();
  const std::size_t blocks = (shape.sequence_length + block - 1) / block;
  const std::size_t per_sequence = blocks * shape.heads;
  // Later blocks of queries see more keys; dealt out in turn, each worker gets its share of them.
  const std::size_t items = per_sequence * shape.sequences;
  workers.run([&](int worker) {
    for (std::size_t item = static_cast<std::size_t>(worker); item < items;
         item += static_cast<std::size_t>(workers.count())) {
      const std::size_t within = item % per_sequence;
      HWY_DYNAMIC_DISPATCH(attention_forward_block)
      (args, item / per_sequence, within / blocks, within % blocks * block);
    }
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
