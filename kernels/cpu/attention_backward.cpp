#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_backward.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include <cmath>

#include "kernels/attention.h"
#include "kernels/cpu/attention_block-inl.h"

// The probabilities are computed anew from q, k and the saved log of the softmax's denominator. One worker handles one
// key/value head of one sequence: blocks of keys outside, blocks of queries of all heads of its group inside, so that
// d_k and d_v stay on the stack and d_q is summed in the order of the keys.

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

/// scores [queries][kBlock] become probabilities p; d_p becomes d_score = scale p (d_p - delta).
HWY_INLINE void differentiate(const Visibility& visible, float scale, std::size_t queries, std::size_t keys,
                              const float* lse, const float* delta, float* scores, float* d_p) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const VF scale_lanes = hn::Set(d, scale);
  for (std::size_t i = 0; i < queries; ++i) {
    const VF log_sum = hn::Set(d, lse[i]);
    const VF shift = hn::Set(d, delta[i]);
    const VF query = hn::Set(d, static_cast<float>(visible.distance + i));
    const VF window = hn::Set(d, static_cast<float>(visible.window));
    const std::size_t seen = visible.is_diagonal ? std::min(keys, i + 1) : keys;
    std::size_t c = 0;
    for (; c < seen; c += lanes) {
      float* score = scores + i * kBlock + c;
      float* gradient = d_p + i * kBlock + c;
      VF p = exponential(hn::MulSub(hn::Load(d, score), scale_lanes, log_sum));
      VF g = hn::Mul(hn::Mul(scale_lanes, p), hn::Sub(hn::Load(d, gradient), shift));
      if (visible.is_masked()) {
        const VF distance = hn::Sub(query, hn::Add(hn::Set(d, static_cast<float>(c)), hn::Iota(d, 0)));
        auto is_visible = hn::Ge(distance, hn::Zero(d));
        if (visible.window > 0) is_visible = hn::And(is_visible, hn::Lt(distance, window));
        p = hn::IfThenElseZero(is_visible, p);
        g = hn::IfThenElseZero(is_visible, g);
      }
      hn::Store(p, d, score);
      hn::Store(g, d, gradient);
    }
    for (; c < keys; c += lanes) {
      hn::Store(hn::Zero(d), d, scores + i * kBlock + c);
      hn::Store(hn::Zero(d), d, d_p + i * kBlock + c);
    }
  }
}

/// d_q of a block: summed where it lies, or through `part` where storage or width do not allow it.
HWY_INLINE void add_to_d_q(Product args, float* d_q, std::size_t stride, std::size_t size, float* part) {
  args.columns = padded(size);
  if (args.columns == size) {
    args.c = d_q;
    args.c_step = stride;
    product(args);
    return;
  }
  const bool adds = args.adds;
  args.adds = false;
  args.c = part;
  args.c_step = args.columns;
  product(args);
  for (std::size_t i = 0; i < args.rows; ++i) {
    for_vectors(0, size, [&](std::size_t c, auto count) HWY_ATTR {
      const VF value = hn::Load(F32(), part + i * args.columns + c);
      float* to = d_q + i * stride + c;
      store(adds ? hn::Add(load(to, count), value) : value, to, count);
    });
  }
}

template <class T>
void backward_head(const AttentionBackward& args, std::size_t sequence, std::size_t kv_head) {
  const F32 d;
  const AttentionShape& shape = args.shape;
  const std::size_t size = shape.head_size;
  const std::size_t step = padded(size);
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t wide = shape.heads * size;
  const std::size_t narrow = shape.kv_heads * size;
  const std::size_t q_stride = stride_or(args.q_stride, wide);
  const std::size_t k_stride = stride_or(args.k_stride, narrow);
  const std::size_t v_stride = stride_or(args.v_stride, narrow);
  const std::size_t out_stride = stride_or(args.out_stride, wide);
  const std::size_t d_out_stride = stride_or(args.d_out_stride, wide);
  const std::size_t d_k_stride = stride_or(args.d_k_stride, narrow);
  const std::size_t d_v_stride = stride_or(args.d_v_stride, narrow);
  // With narrow storage d_q is summed in the workspace and rounded at the end.
  constexpr bool kSumsInPlace = sizeof(T) == sizeof(float);
  const std::size_t d_q_stride = kSumsInPlace ? stride_or(args.d_q_stride, wide) : wide;
  float* d_q = static_cast<float*>(kSumsInPlace ? args.d_q : args.workspace);
  const std::size_t first_row = sequence * shape.sequence_length;

  HWY_ALIGN float key_columns[kBlockElements];
  HWY_ALIGN float value_columns[kBlockElements];
  HWY_ALIGN float d_k[kBlockElements];
  HWY_ALIGN float d_v[kBlockElements];
  HWY_ALIGN float key_copy[kBlockElements];
  HWY_ALIGN float query_copy[kBlockElements];
  HWY_ALIGN float d_out_copy[kBlockElements];
  HWY_ALIGN float d_q_part[kBlockElements];
  HWY_ALIGN float scores[kBlock * kBlock];
  HWY_ALIGN float d_p[kBlock * kBlock];
  float lse[kBlock];
  float delta[kBlock];

  for (std::size_t first_key = 0; first_key < shape.sequence_length; first_key += kBlock) {
    const std::size_t keys = std::min(kBlock, shape.sequence_length - first_key);
    const std::size_t key_row = first_row + first_key;
    const T* k_at = static_cast<const T*>(args.k) + key_row * k_stride + kv_head * size;
    transpose(k_at, k_stride, keys, size, key_columns);
    transpose(static_cast<const T*>(args.v) + key_row * v_stride + kv_head * size, v_stride, keys, size, value_columns);
    const Rows k = fetch(k_at, k_stride, keys, size, key_copy);
    for (std::size_t i = 0; i < keys * step; ++i) d_k[i] = d_v[i] = 0;
    for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::size_t first_query = first_key; first_query < shape.sequence_length; first_query += kBlock) {
        const std::size_t start = first_key_block(shape, first_query);
        if (first_key < start) break;  // these queries, and all later ones, are beyond the window
        const std::size_t queries = std::min(kBlock, shape.sequence_length - first_query);
        const Visibility visible = visibility_of(shape, first_query, queries, first_key);
        const std::size_t row = first_row + first_query;
        const T* d_out_at = static_cast<const T*>(args.d_out) + row * d_out_stride + head * size;
        const T* out_at = static_cast<const T*>(args.out) + row * out_stride + head * size;
        const Rows q =
            fetch(static_cast<const T*>(args.q) + row * q_stride + head * size, q_stride, queries, size, query_copy);
        const Rows d_out = fetch(d_out_at, d_out_stride, queries, size, d_out_copy);
        for (std::size_t i = 0; i < queries; ++i) {
          lse[i] = args.lse[(row + i) * shape.heads + head];
          VF sum = hn::Zero(d);
          for_vectors(0, size, [&](std::size_t c, auto part) HWY_ATTR {
            sum = hn::MulAdd(load(d_out_at + i * d_out_stride + c, part), load(out_at + i * out_stride + c, part), sum);
          });
          delta[i] = sum_of_lanes(sum);
        }
        const bool diagonal = visible.is_diagonal;
        Product to_scores{.rows = queries,
                          .columns = padded(keys),
                          .inner = size,
                          .a = {q.data, q.step, 1},
                          .b = key_columns,
                          .b_step = kBlock,
                          .c = scores,
                          .c_step = kBlock,
                          .triangle = diagonal ? Triangle::kLowerResult : Triangle::kAll};
        product(to_scores);
        to_scores.a = {d_out.data, d_out.step, 1};
        to_scores.b = value_columns;
        to_scores.c = d_p;
        product(to_scores);
        differentiate(visible, shape.scale, queries, keys, lse, delta, scores, d_p);
        Product to_keys{.rows = keys,
                        .columns = step,
                        .inner = queries,
                        .a = {scores, 1, kBlock},
                        .b = d_out.data,
                        .b_step = d_out.step,
                        .c = d_v,
                        .c_step = step,
                        .adds = true,
                        .triangle = diagonal ? Triangle::kUpperA : Triangle::kAll};
        product(to_keys);
        to_keys.a = {d_p, 1, kBlock};
        to_keys.b = q.data;
        to_keys.b_step = q.step;
        to_keys.c = d_k;
        product(to_keys);
        add_to_d_q({.rows = queries,
                    .inner = keys,
                    .a = {d_p, kBlock, 1},
                    .b = k.data,
                    .b_step = k.step,
                    .adds = first_key > start,
                    .triangle = diagonal ? Triangle::kLowerA : Triangle::kAll},
                   d_q + row * d_q_stride + head * size, d_q_stride, size, d_q_part);
      }
    }
    for (std::size_t i = 0; i < keys; ++i) {
      T* d_k_at = static_cast<T*>(args.d_k) + (key_row + i) * d_k_stride + kv_head * size;
      T* d_v_at = static_cast<T*>(args.d_v) + (key_row + i) * d_v_stride + kv_head * size;
      for_vectors(0, size, [&](std::size_t c, auto part) HWY_ATTR {
        store(hn::Load(d, d_k + i * step + c), d_k_at + c, part);
        store(hn::Load(d, d_v + i * step + c), d_v_at + c, part);
      });
    }
  }
  if constexpr (!kSumsInPlace) {
    const std::size_t stride = stride_or(args.d_q_stride, wide);
    for (std::size_t row = first_row; row < first_row + shape.sequence_length; ++row) {
      for_vectors(kv_head * group * size, (kv_head + 1) * group * size, [&](std::size_t c, auto part) HWY_ATTR {
        store(load(d_q + row * wide + c, part), static_cast<T*>(args.d_q) + row * stride + c, part);
      });
    }
  }
}

void attention_backward_head(const AttentionBackward& args, std::size_t sequence, std::size_t kv_head) {
  with_storage(args.shape.dtype, [&]<class T>(T) { backward_head<T>(args, sequence, kv_head); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(attention_backward_head);

}  // namespace

void attention_backward(const AttentionBackward& args, Workers& workers) {
  const AttentionShape& shape = args.shape;
  require_storage(shape.dtype);
  ZP_CHECK(shape.head_size > 0 && shape.head_size <= kMaxHeadSize);
  ZP_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  workers.run_ranges(shape.sequences * shape.kv_heads, 1, [&](IndexRange range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      HWY_DYNAMIC_DISPATCH(attention_backward_head)(args, i / shape.kv_heads, i % shape.kv_heads);
    }
  });
}

}  // namespace zeroplan::kernels::cpu
#endif
