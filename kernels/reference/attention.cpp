#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {
namespace {

/// Rows of one query and of the keys it sees: those of its sequence from `first_key` to itself.
struct Query {
  std::size_t row = 0;
  std::size_t first_key = 0;
  std::size_t head = 0;
  std::size_t kv_head = 0;
};

template <class Function>
void for_each_query(const AttentionShape& shape, Function function) {
  for (std::size_t s = 0; s < shape.sequences; ++s) {
    for (std::size_t t = 0; t < shape.sequence_length; ++t) {
      const std::size_t first = shape.window > 0 && t + 1 > shape.window ? t + 1 - shape.window : 0;
      for (std::size_t h = 0; h < shape.heads; ++h) {
        function(Query{.row = s * shape.sequence_length + t,
                       .first_key = s * shape.sequence_length + first,
                       .head = h,
                       .kv_head = h / (shape.heads / shape.kv_heads)});
      }
    }
  }
}

double dot(const AttentionShape& shape, const void* a, std::size_t a_at, const void* b, std::size_t b_at) {
  double sum = 0;
  for (std::size_t i = 0; i < shape.head_size; ++i)
    sum += load(shape.dtype, a, a_at + i) * load(shape.dtype, b, b_at + i);
  return sum;
}

}  // namespace

void attention_forward(const AttentionForward& args) {
  const AttentionShape& shape = args.shape;
  const std::size_t d = shape.head_size;
  const std::size_t q_stride = stride_or(args.q_stride, shape.heads * d);
  const std::size_t k_stride = stride_or(args.k_stride, shape.kv_heads * d);
  const std::size_t v_stride = stride_or(args.v_stride, shape.kv_heads * d);
  const std::size_t out_stride = stride_or(args.out_stride, shape.heads * d);
  for_each_query(shape, [&](const Query& query) {
    const auto score = [&](std::size_t key) {
      return shape.scale *
             dot(shape, args.q, query.row * q_stride + query.head * d, args.k, key * k_stride + query.kv_head * d);
    };
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t key = query.first_key; key <= query.row; ++key) largest = std::max(largest, score(key));
    double sum = 0;
    for (std::size_t key = query.first_key; key <= query.row; ++key) sum += std::exp(score(key) - largest);
    args.lse[query.row * shape.heads + query.head] = static_cast<float>(largest + std::log(sum));
    double out[kMaxHeadSize] = {};
    for (std::size_t key = query.first_key; key <= query.row; ++key) {
      const double probability = std::exp(score(key) - largest) / sum;
      for (std::size_t i = 0; i < d; ++i) {
        out[i] += probability * load(shape.dtype, args.v, key * v_stride + query.kv_head * d + i);
      }
    }
    for (std::size_t i = 0; i < d; ++i)
      store(shape.dtype, args.out, query.row * out_stride + query.head * d + i, out[i]);
  });
}

void attention_backward(const AttentionBackward& args) {
  const AttentionShape& shape = args.shape;
  const std::size_t d = shape.head_size;
  const std::size_t q_stride = stride_or(args.q_stride, shape.heads * d);
  const std::size_t k_stride = stride_or(args.k_stride, shape.kv_heads * d);
  const std::size_t v_stride = stride_or(args.v_stride, shape.kv_heads * d);
  const std::size_t out_stride = stride_or(args.out_stride, shape.heads * d);
  const std::size_t d_out_stride = stride_or(args.d_out_stride, shape.heads * d);
  const std::size_t d_q_stride = stride_or(args.d_q_stride, shape.heads * d);
  const std::size_t d_k_stride = stride_or(args.d_k_stride, shape.kv_heads * d);
  const std::size_t d_v_stride = stride_or(args.d_v_stride, shape.kv_heads * d);
  // Each element of a gradient is gathered in its own double before it is stored once.
  const auto probability = [&](const Query& query, std::size_t key) {
    return std::exp(shape.scale * dot(shape, args.q, query.row * q_stride + query.head * d, args.k,
                                      key * k_stride + query.kv_head * d) -
                    args.lse[query.row * shape.heads + query.head]);
  };
  const auto d_score = [&](const Query& query, std::size_t key) {
    const std::size_t d_out_at = query.row * d_out_stride + query.head * d;
    const double d_probability = dot(shape, args.d_out, d_out_at, args.v, key * v_stride + query.kv_head * d);
    const double delta = dot(shape, args.d_out, d_out_at, args.out, query.row * out_stride + query.head * d);
    return shape.scale * probability(query, key) * (d_probability - delta);
  };
  for_each_query(shape, [&](const Query& query) {
    double d_q[kMaxHeadSize] = {};
    for (std::size_t key = query.first_key; key <= query.row; ++key) {
      const double factor = d_score(query, key);
      for (std::size_t i = 0; i < d; ++i) {
        d_q[i] += factor * load(shape.dtype, args.k, key * k_stride + query.kv_head * d + i);
      }
    }
    for (std::size_t i = 0; i < d; ++i)
      store(shape.dtype, args.d_q, query.row * d_q_stride + query.head * d + i, d_q[i]);
  });
  for (std::size_t key = 0; key < shape.sequences * shape.sequence_length; ++key) {
    for (std::size_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      double d_k[kMaxHeadSize] = {};
      double d_v[kMaxHeadSize] = {};
      for_each_query(shape, [&](const Query& query) {
        if (query.kv_head != kv_head || key < query.first_key || key > query.row) return;
        const double factor = d_score(query, key);
        const double weight = probability(query, key);
        for (std::size_t i = 0; i < d; ++i) {
          d_k[i] += factor * load(shape.dtype, args.q, query.row * q_stride + query.head * d + i);
          d_v[i] += weight * load(shape.dtype, args.d_out, query.row * d_out_stride + query.head * d + i);
        }
      });
      for (std::size_t i = 0; i < d; ++i) {
        store(shape.dtype, args.d_k, key * d_k_stride + kv_head * d + i, d_k[i]);
        store(shape.dtype, args.d_v, key * d_v_stride + kv_head * d + i, d_v[i]);
      }
    }
  }
}

}  // namespace zeroplan::kernels::reference
