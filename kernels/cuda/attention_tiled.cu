// Attention in fp32 arithmetic for any storage type and head size up to 256: tiles of queries and keys in shared
// memory, 256 threads in a 16 x 16 grid, each with a small block of every product in registers. The backward pass
// computes the scores twice: once a block of keys gathers d_k and d_v over the queries that see it, once a block of
// queries gathers d_q; each gradient is written once, by one block, so no order varies. 4 (10 and 4 backward) products
// of tile x tile x head size each.
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/storage.cuh"

namespace zeroplan::kernels::cuda {
namespace {

constexpr unsigned kSide = 16;
constexpr unsigned kThreads = kSide * kSide;

__device__ float element(DType type, const void* data, std::size_t i) {
  if (type == DType::kBf16) return widen(static_cast<const __nv_bfloat16*>(data)[i]);
  if (type == DType::kFp16) return widen(static_cast<const __half*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

__device__ void set_element(DType type, void* data, std::size_t i, float value) {
  if (type == DType::kBf16) {
    static_cast<__nv_bfloat16*>(data)[i] = narrow<__nv_bfloat16>(value);
  } else if (type == DType::kFp16) {
    static_cast<__half*>(data)[i] = narrow<__half>(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

/// A tile of rows in shared memory, an odd number of words apart.
template <unsigned kD, unsigned kTile>
struct Tile {
  float v[kTile][kD + 1];
};

/// Rows [row, row + kTile) of one head of one sequence; zero beyond the sequence and the head.
template <unsigned kD, unsigned kTile>
__device__ void load_tile(Tile<kD, kTile>& tile, const AttentionShape& shape, const void* data, std::size_t stride,
                          std::size_t head, std::size_t row) {
  const std::size_t first = blockIdx.z * shape.sequence_length;
  for (unsigned i = threadIdx.x; i < kTile * kD; i += kThreads) {
    const unsigned r = i / kD;
    const unsigned c = i % kD;
    const bool in = row + r < shape.sequence_length && c < shape.head_size;
    tile.v[r][c] = in ? element(shape.dtype, data, (first + row + r) * stride + head * shape.head_size + c) : 0.0f;
  }
}

/// sums[r][j] += a[mine(r)] . b[theirs(j)], over the head.
template <unsigned kD, unsigned kTile, unsigned kR = kTile / kSide>
__device__ void add_row_products(float (&sums)[kR][kR], const Tile<kD, kTile>& a, const Tile<kD, kTile>& b,
                                 unsigned head_size) {
  const unsigned ty = threadIdx.x / kSide;
  const unsigned tx = threadIdx.x % kSide;
#pragma unroll 4
  for (unsigned i = 0; i < head_size; ++i) {
    float x[kR];
    float y[kR];
#pragma unroll
    for (unsigned r = 0; r < kR; ++r) x[r] = a.v[ty * kR + r][i];
#pragma unroll
    for (unsigned j = 0; j < kR; ++j) y[j] = b.v[tx + j * kSide][i];
#pragma unroll
    for (unsigned r = 0; r < kR; ++r) {
#pragma unroll
      for (unsigned j = 0; j < kR; ++j) sums[r][j] = fmaf(x[r], y[j], sums[r][j]);
    }
  }
}

/// out[r][j] += sum over c of weights[mine(r)][c] (or [c][mine(r)]) b[c][tx + 16 j].
template <bool kTransposed, unsigned kD, unsigned kTile, unsigned kR = kTile / kSide, unsigned kC = kD / kSide>
__device__ void add_weighted_rows(float (&out)[kR][kC], const float (&weights)[kTile][kTile + 1],
                                  const Tile<kD, kTile>& b) {
  const unsigned ty = threadIdx.x / kSide;
  const unsigned tx = threadIdx.x % kSide;
#pragma unroll 4
  for (unsigned c = 0; c < kTile; ++c) {
    float w[kR];
#pragma unroll
    for (unsigned r = 0; r < kR; ++r) w[r] = kTransposed ? weights[c][ty * kR + r] : weights[ty * kR + r][c];
#pragma unroll
    for (unsigned j = 0; j < kC; ++j) {
      const float x = b.v[c][tx + j * kSide];
#pragma unroll
      for (unsigned r = 0; r < kR; ++r) out[r][j] = fmaf(w[r], x, out[r][j]);
    }
  }
}

/// Writes a block of rows.
template <unsigned kR, unsigned kC>
__device__ void store_rows(const AttentionShape& shape, const float (&values)[kR][kC], void* data, std::size_t stride,
                           std::size_t head, std::size_t row) {
  const unsigned ty = threadIdx.x / kSide;
  const unsigned tx = threadIdx.x % kSide;
  const std::size_t first = blockIdx.z * shape.sequence_length;
#pragma unroll
  for (unsigned r = 0; r < kR; ++r) {
    const std::size_t at = row + ty * kR + r;
    if (at >= shape.sequence_length) continue;
#pragma unroll
    for (unsigned j = 0; j < kC; ++j) {
      const unsigned c = tx + j * kSide;
      if (c < shape.head_size) {
        set_element(shape.dtype, data, (first + at) * stride + head * shape.head_size + c, values[r][j]);
      }
    }
  }
}

__device__ bool sees(const AttentionShape& shape, std::size_t query, std::size_t key) {
  return query < shape.sequence_length && key <= query && (shape.window == 0 || key + shape.window > query);
}

/// The first key that any query from `query` on sees.
__device__ std::size_t first_key(const AttentionShape& shape, std::size_t query) {
  return shape.window > 0 && query + 1 > shape.window ? query + 1 - shape.window : 0;
}

template <unsigned kD, unsigned kTile>
struct ForwardShared {
  Tile<kD, kTile> q, k, v;
  float p[kTile][kTile + 1];
};

template <unsigned kD, unsigned kTile>
__global__ void __launch_bounds__(kThreads) forward_kernel(AttentionForward args) {
  constexpr unsigned kR = kTile / kSide;
  constexpr unsigned kC = kD / kSide;
  extern __shared__ float4 raw[];
  auto& shared = *reinterpret_cast<ForwardShared<kD, kTile>*>(raw);
  const AttentionShape& shape = args.shape;
  const unsigned ty = threadIdx.x / kSide;
  const unsigned tx = threadIdx.x % kSide;
  const std::size_t query0 = static_cast<std::size_t>(gridDim.x - 1 - blockIdx.x) * kTile;  // the longest first
  const std::size_t head = blockIdx.y;
  const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
  load_tile(shared.q, shape, args.q, args.q_stride, head, query0);
  float out[kR][kC] = {};
  float largest[kR];
  float sum[kR] = {};
#pragma unroll
  for (unsigned r = 0; r < kR; ++r) largest[r] = -INFINITY;
  const std::size_t end = min(query0 + kTile, shape.sequence_length);
  for (std::size_t key0 = first_key(shape, query0) / kTile * kTile; key0 < end; key0 += kTile) {
    __syncthreads();
    load_tile(shared.k, shape, args.k, args.k_stride, kv_head, key0);
    load_tile(shared.v, shape, args.v, args.v_stride, kv_head, key0);
    __syncthreads();
    float scores[kR][kR] = {};
    add_row_products(scores, shared.q, shared.k, shape.head_size);
#pragma unroll
    for (unsigned r = 0; r < kR; ++r) {
      float top = largest[r];
#pragma unroll
      for (unsigned j = 0; j < kR; ++j) {
        const bool is_seen = sees(shape, query0 + ty * kR + r, key0 + tx + j * kSide);
        scores[r][j] = is_seen ? scores[r][j] * shape.scale : -INFINITY;
        top = fmaxf(top, scores[r][j]);
      }
      top = lanes_max<kSide>(top);
      const float base = top == -INFINITY ? 0.0f : top;  // nothing seen yet
      const float shrink = expf(largest[r] - base);
      float part = 0;
#pragma unroll
      for (unsigned j = 0; j < kR; ++j) {
        const float p = expf(scores[r][j] - base);
        part += p;
        shared.p[ty * kR + r][tx + j * kSide] = p;
      }
      sum[r] = fmaf(sum[r], shrink, lanes_sum<kSide>(part));
      largest[r] = top;
#pragma unroll
      for (unsigned j = 0; j < kC; ++j) out[r][j] *= shrink;
    }
    __syncwarp();  // the rows of p that a warp reads are its own
    add_weighted_rows<false>(out, shared.p, shared.v);
  }
#pragma unroll
  for (unsigned r = 0; r < kR; ++r) {
    const std::size_t query = query0 + ty * kR + r;
    const float inverse = 1.0f / sum[r];
#pragma unroll
    for (unsigned j = 0; j < kC; ++j) out[r][j] *= inverse;
    if (tx == 0 && query < shape.sequence_length) {
      args.lse[(blockIdx.z * shape.heads + head) * shape.sequence_length + query] = largest[r] + logf(sum[r]);
    }
  }
  store_rows(shape, out, args.out, args.out_stride, head, query0);
}

template <unsigned kD, unsigned kTile>
struct BackwardShared {
  Tile<kD, kTile> q, k, v, d_out;
  float p[kTile][kTile + 1];
  float d_score[kTile][kTile + 1];
  float lse[kTile];
  float delta[kTile];
};

template <unsigned kD, unsigned kTile>
__device__ void load_queries(BackwardShared<kD, kTile>& shared, const AttentionBackward& args, const float* delta,
                             std::size_t head, std::size_t query0) {
  const AttentionShape& shape = args.shape;
  load_tile(shared.q, shape, args.q, args.q_stride, head, query0);
  load_tile(shared.d_out, shape, args.d_out, args.d_out_stride, head, query0);
  const std::size_t first = (blockIdx.z * shape.heads + head) * shape.sequence_length;
  for (unsigned i = threadIdx.x; i < kTile; i += kThreads) {
    const bool in = query0 + i < shape.sequence_length;
    shared.lse[i] = in ? args.lse[first + query0 + i] : 0.0f;
    shared.delta[i] = in ? delta[first + query0 + i] : 0.0f;
  }
}

/// Fills shared.p (if `with_p`) and shared.d_score for the tiles at hand.
template <unsigned kD, unsigned kTile>
__device__ void fill_scores(BackwardShared<kD, kTile>& shared, const AttentionShape& shape, std::size_t query0,
                            std::size_t key0) {
  constexpr unsigned kR = kTile / kSide;
  const unsigned ty = threadIdx.x / kSide;
  const unsigned tx = threadIdx.x % kSide;
  float scores[kR][kR] = {};
  float d_p[kR][kR] = {};
  add_row_products(scores, shared.q, shared.k, shape.head_size);
  add_row_products(d_p, shared.d_out, shared.v, shape.head_size);
#pragma unroll
  for (unsigned r = 0; r < kR; ++r) {
    const unsigned row = ty * kR + r;
#pragma unroll
    for (unsigned j = 0; j < kR; ++j) {
      const unsigned column = tx + j * kSide;
      const bool is_seen = sees(shape, query0 + row, key0 + column);
      const float p = is_seen ? expf(fmaf(scores[r][j], shape.scale, -shared.lse[row])) : 0.0f;
      shared.p[row][column] = p;
      shared.d_score[row][column] = is_seen ? shape.scale * p * (d_p[r][j] - shared.delta[row]) : 0.0f;
    }
  }
}

/// Grid: tiles of keys, key/value heads, sequences.
template <unsigned kD, unsigned kTile>
__global__ void __launch_bounds__(kThreads) keys_kernel(AttentionBackward args, const float* delta) {
  constexpr unsigned kR = kTile / kSide;
  constexpr unsigned kC = kD / kSide;
  extern __shared__ float4 raw[];
  auto& shared = *reinterpret_cast<BackwardShared<kD, kTile>*>(raw);
  const AttentionShape& shape = args.shape;
  const std::size_t key0 = static_cast<std::size_t>(blockIdx.x) * kTile;
  const std::size_t kv_head = blockIdx.y;
  const std::size_t group = shape.heads / shape.kv_heads;
  load_tile(shared.k, shape, args.k, args.k_stride, kv_head, key0);
  load_tile(shared.v, shape, args.v, args.v_stride, kv_head, key0);
  float d_k[kR][kC] = {};
  float d_v[kR][kC] = {};
  const std::size_t length = shape.sequence_length;
  const std::size_t end = shape.window > 0 ? min(length, key0 + kTile + shape.window) : length;
  for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::size_t query0 = key0; query0 < end; query0 += kTile) {
      __syncthreads();
      load_queries(shared, args, delta, head, query0);
      __syncthreads();
      fill_scores(shared, shape, query0, key0);
      __syncthreads();
      add_weighted_rows<true>(d_v, shared.p, shared.d_out);
      add_weighted_rows<true>(d_k, shared.d_score, shared.q);
    }
  }
  store_rows(shape, d_k, args.d_k, args.d_k_stride, kv_head, key0);
  store_rows(shape, d_v, args.d_v, args.d_v_stride, kv_head, key0);
}

/// Grid: tiles of queries, heads, sequences.
template <unsigned kD, unsigned kTile>
__global__ void __launch_bounds__(kThreads) queries_kernel(AttentionBackward args, const float* delta) {
  constexpr unsigned kR = kTile / kSide;
  constexpr unsigned kC = kD / kSide;
  extern __shared__ float4 raw[];
  auto& shared = *reinterpret_cast<BackwardShared<kD, kTile>*>(raw);
  const AttentionShape& shape = args.shape;
  const std::size_t query0 = static_cast<std::size_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const std::size_t head = blockIdx.y;
  const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
  load_queries(shared, args, delta, head, query0);
  float d_q[kR][kC] = {};
  const std::size_t end = min(query0 + kTile, shape.sequence_length);
  for (std::size_t key0 = first_key(shape, query0) / kTile * kTile; key0 < end; key0 += kTile) {
    __syncthreads();
    load_tile(shared.k, shape, args.k, args.k_stride, kv_head, key0);
    load_tile(shared.v, shape, args.v, args.v_stride, kv_head, key0);
    __syncthreads();
    fill_scores(shared, shape, query0, key0);
    __syncthreads();
    add_weighted_rows<false>(d_q, shared.d_score, shared.k);
  }
  store_rows(shape, d_q, args.d_q, args.d_q_stride, head, query0);
}

/// A warp a row and head: delta = d_out . out.
__global__ void __launch_bounds__(kThreads) delta_kernel(AttentionBackward args, float* delta) {
  const AttentionShape& shape = args.shape;
  const std::size_t pair = static_cast<std::size_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const std::size_t row = pair / shape.heads;
  const std::size_t head = pair % shape.heads;
  if (row >= shape.sequences * shape.sequence_length) return;
  float sum = 0;
  for (std::size_t i = threadIdx.x % 32; i < shape.head_size; i += 32) {
    const std::size_t column = head * shape.head_size + i;
    sum = fmaf(element(shape.dtype, args.d_out, row * args.d_out_stride + column),
               element(shape.dtype, args.out, row * args.out_stride + column), sum);
  }
  sum = lanes_sum(sum);
  const std::size_t sequence = row / shape.sequence_length;
  if (threadIdx.x % 32 == 0) {
    delta[(sequence * shape.heads + head) * shape.sequence_length + row % shape.sequence_length] = sum;
  }
}

/// Launches with `bytes` of shared memory, more than a kernel gets unasked.
template <class Kernel, class... Arguments>
void launch_with(Kernel kernel, dim3 grid, std::size_t bytes, const Launch& launch, const char* name,
                 const Arguments&... arguments) {
  check_device(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
               name);
  kernel<<<grid, kThreads, bytes, launch.stream>>>(arguments...);
  check_launch(name);
}

dim3 grid_of(const AttentionShape& shape, std::size_t heads, unsigned tile) {
  return {static_cast<unsigned>((shape.sequence_length + tile - 1) / tile), static_cast<unsigned>(heads),
          static_cast<unsigned>(shape.sequences)};
}

template <unsigned kD, unsigned kTile>
void forward_with(const AttentionForward& args, const Launch& launch) {
  launch_with(forward_kernel<kD, kTile>, grid_of(args.shape, args.shape.heads, kTile), sizeof(ForwardShared<kD, kTile>),
              launch, "tiled attention", args);
}

template <unsigned kD, unsigned kTile>
void backward_with(const AttentionBackward& args, const float* delta, const Launch& launch) {
  constexpr std::size_t kBytes = sizeof(BackwardShared<kD, kTile>);
  launch_with(keys_kernel<kD, kTile>, grid_of(args.shape, args.shape.kv_heads, kTile), kBytes, launch,
              "tiled attention backward, keys", args, delta);
  launch_with(queries_kernel<kD, kTile>, grid_of(args.shape, args.shape.heads, kTile), kBytes, launch,
              "tiled attention backward, queries", args, delta);
}

}  // namespace

void enqueue_tiled(const AttentionForward& args, const Launch& launch) {
  if (args.shape.head_size <= 64) return forward_with<64, 64>(args, launch);
  if (args.shape.head_size <= 128) return forward_with<128, 64>(args, launch);
  forward_with<256, 32>(args, launch);
}

void enqueue_tiled(const AttentionBackward& args, const float* delta, const Launch& launch) {
  if (args.shape.head_size <= 64) return backward_with<64, 64>(args, delta, launch);
  if (args.shape.head_size <= 128) return backward_with<128, 64>(args, delta, launch);
  backward_with<256, 32>(args, delta, launch);
}

void enqueue_delta(const AttentionBackward& args, float* delta, const Launch& launch) {
  const std::size_t pairs = args.shape.sequences * args.shape.sequence_length * args.shape.heads;
  delta_kernel<<<static_cast<unsigned>((pairs + kThreads / 32 - 1) / (kThreads / 32)), kThreads, 0, launch.stream>>>(
      args, delta);
  check_launch("attention backward, delta");
}

}  // namespace zeroplan::kernels::cuda
