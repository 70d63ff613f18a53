// Token and position embedding. The backward pass sorts the tokens by id (stable radix sort in the workspace), so that
// each row of the table is summed by one warp, or by one block where it has many tokens, over a fixed tree.
#include <algorithm>
#include <bit>

#include "kernels/cuda/device_error.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/embedding.h"
#include "models/core/cuda_workspace.h"

namespace zeroplan::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kDigits = kCudaSortDigits;
constexpr unsigned kDigitBits = 9;
static_assert(1u << kDigitBits == kDigits);
constexpr unsigned kTile = kCudaSortTile;
constexpr unsigned kWarpTokens = kTile / kWarps;

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(EmbeddingForward args, unsigned vectors, unsigned row_vectors) {
  const unsigned v = blockIdx.x * kThreads + threadIdx.x;
  if (v >= vectors) return;
  const unsigned token = v / row_vectors;
  const std::size_t column = static_cast<std::size_t>(v % row_vectors) * N;
  const auto* table = static_cast<const T*>(args.token_table);
  Floats<N> x = load<N>(table + args.ids[token] * args.width + column);
  if (args.position_table != nullptr) {
    const std::size_t position = token % static_cast<unsigned>(args.sequence_length);
    const Floats<N> p = load<N>(static_cast<const T*>(args.position_table) + position * args.width + column);
#pragma unroll
    for (int e = 0; e < N; ++e) x.v[e] += p.v[e];
  }
  store<N>(static_cast<T*>(args.out) + token * args.width + column, x);
}

// --- Stable sort of the tokens by id, kDigitBits at a time -----------------------------------------------------------

/// counts[digit x tiles + tile] = tokens of the tile whose id has this digit.
__global__ void __launch_bounds__(kThreads)
    count_digits_kernel(const std::int32_t* ids, unsigned tokens, unsigned shift, unsigned* counts) {
  __shared__ unsigned histogram[kDigits];
  for (unsigned d = threadIdx.x; d < kDigits; d += kThreads) histogram[d] = 0;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kTile && blockIdx.x * kTile + i < tokens; i += kThreads) {
    atomicAdd(&histogram[static_cast<unsigned>(ids[blockIdx.x * kTile + i]) >> shift & (kDigits - 1)], 1u);
  }
  __syncthreads();
  for (unsigned d = threadIdx.x; d < kDigits; d += kThreads) counts[d * gridDim.x + blockIdx.x] = histogram[d];
}

constexpr unsigned kScanThreads = 1024;

/// Exclusive prefix sums in place, by one block.
__global__ void __launch_bounds__(kScanThreads) scan_kernel(unsigned* counts, unsigned count) {
  __shared__ unsigned totals[kScanThreads];
  const unsigned each = (count + kScanThreads - 1) / kScanThreads;
  const unsigned begin = min(count, threadIdx.x * each);
  const unsigned end = min(count, begin + each);
  unsigned total = 0;
  for (unsigned i = begin; i < end; ++i) total += counts[i];
  totals[threadIdx.x] = total;
  for (unsigned offset = 1; offset < kScanThreads; offset *= 2) {
    __syncthreads();
    const unsigned before = threadIdx.x >= offset ? totals[threadIdx.x - offset] : 0;
    __syncthreads();
    totals[threadIdx.x] += before;
  }
  unsigned sum = totals[threadIdx.x] - total;
  for (unsigned i = begin; i < end; ++i) {
    const unsigned here = counts[i];
    counts[i] = sum;
    sum += here;
  }
}

/// Moves each token behind those of smaller digits and those before it of the same digit. `order` is none in the first
/// pass: the tokens then lie in their own order.
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(const std::int32_t* ids, const std::int32_t* order, unsigned tokens, unsigned shift,
                   const unsigned* starts, std::int32_t* sorted_ids, std::int32_t* sorted_order) {
  __shared__ unsigned next[kWarps][kDigits];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  for (unsigned d = threadIdx.x; d < kWarps * kDigits; d += kThreads) next[d / kDigits][d % kDigits] = 0;
  __syncthreads();
  const unsigned begin = blockIdx.x * kTile + warp * kWarpTokens;
  for (unsigned i = begin + lane; i < begin + kWarpTokens && i < tokens; i += 32) {
    atomicAdd(&next[warp][static_cast<unsigned>(ids[i]) >> shift & (kDigits - 1)], 1u);
  }
  __syncthreads();
  for (unsigned d = threadIdx.x; d < kDigits; d += kThreads) {
    unsigned at = starts[d * gridDim.x + blockIdx.x];
    for (unsigned w = 0; w < kWarps; ++w) {
      const unsigned here = next[w][d];
      next[w][d] = at;
      at += here;
    }
  }
  __syncthreads();
  for (unsigned i = begin; i < begin + kWarpTokens && i < tokens; i += 32) {
    const unsigned token = i + lane;
    const unsigned present = __ballot_sync(0xffffffffu, token < tokens);
    if (token < tokens) {
      const std::int32_t id = ids[token];
      const unsigned digit = static_cast<unsigned>(id) >> shift & (kDigits - 1);
      const unsigned peers = __match_any_sync(present, digit);
      const unsigned to = next[warp][digit] + __popc(peers & ((1u << lane) - 1));
      sorted_ids[to] = id;
      sorted_order[to] = order == nullptr ? static_cast<std::int32_t>(token) : order[token];
      __syncwarp(present);
      if (lane == static_cast<unsigned>(__ffs(static_cast<int>(peers))) - 1) next[warp][digit] += __popc(peers);
      __syncwarp(present);
    }
  }
}

struct SortedTokens {
  const std::int32_t* ids;    ///< ascending
  const std::int32_t* order;  ///< the tokens, those of equal ids in their own order
};

SortedTokens enqueue_sort(const EmbeddingBackward& args, const Launch& launch) {
  const auto tokens = static_cast<unsigned>(args.tokens);
  const std::size_t padded = (args.tokens + 3) / 4 * 4;
  auto* buffers = static_cast<std::int32_t*>(launch.workspace);
  auto* counts = reinterpret_cast<unsigned*>(buffers + 4 * padded);
  const unsigned tiles = (tokens + kTile - 1) / kTile;
  const unsigned bits = std::max(1u, static_cast<unsigned>(std::bit_width(args.vocabulary - 1)));
  SortedTokens sorted{args.ids, nullptr};
  for (unsigned shift = 0, pass = 0; shift < bits; shift += kDigitBits, ++pass) {
    std::int32_t* to = buffers + pass % 2 * 2 * padded;
    count_digits_kernel<<<tiles, kThreads, 0, launch.stream>>>(sorted.ids, tokens, shift, counts);
    scan_kernel<<<1, kScanThreads, 0, launch.stream>>>(counts, kDigits * tiles);
    scatter_kernel<<<tiles, kThreads, 0, launch.stream>>>(sorted.ids, sorted.order, tokens, shift, counts, to,
                                                          to + padded);
    check_launch("embedding sort");
    sorted = {to, to + padded};
  }
  return sorted;
}

// --- Sums over equal ids ---------------------------------------------------------------------------------------------

/// More tokens than this of one id are shared among the warps of a block.
constexpr unsigned kWarpSegment = 64;

/// Adds d_out of the tokens order[begin ... end) at `column` in order.
template <class T, int N>
__device__ Floats<N> sum_tokens(const T* d_out, std::size_t width, const std::int32_t* order, unsigned begin,
                                unsigned end, std::size_t column) {
  Floats<N> sum{};
#pragma unroll 8
  for (unsigned i = begin; i < end; ++i) {
    const Floats<N> x = load<N>(d_out + order[i] * width + column);
#pragma unroll
    for (int e = 0; e < N; ++e) sum.v[e] += x.v[e];
  }
  return sum;
}

/// The first position behind `begin` whose id differs, by binary search.
__device__ unsigned segment_end(const std::int32_t* ids, unsigned begin, unsigned tokens) {
  const std::int32_t id = ids[begin];
  unsigned low = begin + 1;
  unsigned high = tokens;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (ids[middle] == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Block (x, y): the ids that begin at sorted positions 8 x ... 8 x + 7, in the columns of tile y.
template <class T, class G, int N>
__global__ void __launch_bounds__(kThreads) sum_ids_kernel(EmbeddingBackward args, SortedTokens sorted) {
  __shared__ unsigned long_end[kWarps];
  __shared__ Floats<N> sums[kWarps][32];
  const auto* d_out = static_cast<const T*>(args.d_out);
  auto* table = static_cast<G*>(args.d_token_table);
  const auto tokens = static_cast<unsigned>(args.tokens);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::size_t column = (static_cast<std::size_t>(blockIdx.y) * 32 + lane) * N;
  const unsigned begin = blockIdx.x * kWarps + warp;
  const bool first = begin < tokens && (begin == 0 || sorted.ids[begin - 1] != sorted.ids[begin]);
  const unsigned end = first ? segment_end(sorted.ids, begin, tokens) : begin;
  const bool is_long = end - begin > kWarpSegment;
  if (lane == 0) long_end[warp] = is_long ? end : 0;
  if (first && !is_long && column < args.width) {
    put<N>(table + sorted.ids[begin] * args.width + column,
           sum_tokens<T, N>(d_out, args.width, sorted.order, begin, end, column), args.accumulate);
  }
  __syncthreads();
  for (unsigned w = 0; w < kWarps; ++w) {
    if (long_end[w] == 0) continue;
    const unsigned from = blockIdx.x * kWarps + w;
    const unsigned each = (long_end[w] - from + kWarps - 1) / kWarps;
    const unsigned mine = min(long_end[w], from + warp * each);
    if (column < args.width) {
      sums[warp][lane] = sum_tokens<T, N>(d_out, args.width, sorted.order, mine, min(long_end[w], mine + each), column);
    }
    __syncthreads();
    if (warp == 0 && column < args.width) {
      Floats<N> sum = sums[0][lane];
      for (unsigned other = 1; other < kWarps; ++other) {
#pragma unroll
        for (int e = 0; e < N; ++e) sum.v[e] += sums[other][lane].v[e];
      }
      put<N>(table + sorted.ids[from] * args.width + column, sum, args.accumulate);
    }
    __syncthreads();
  }
}

/// Each position's row: the sum over the sequences, in order.
template <class T, class G, int N>
__global__ void __launch_bounds__(kThreads)
    positions_kernel(EmbeddingBackward args, unsigned vectors, unsigned row_vectors) {
  const unsigned v = blockIdx.x * kThreads + threadIdx.x;
  if (v >= vectors) return;
  const unsigned row = v / row_vectors;
  const std::size_t column = static_cast<std::size_t>(v % row_vectors) * N;
  const auto* d_out = static_cast<const T*>(args.d_out);
  Floats<N> sum{};
  if (row < args.sequence_length) {
#pragma unroll 8
    for (std::size_t token = row; token < args.tokens; token += args.sequence_length) {
      const Floats<N> x = load<N>(d_out + token * args.width + column);
#pragma unroll
      for (int e = 0; e < N; ++e) sum.v[e] += x.v[e];
    }
  }
  put<N>(static_cast<G*>(args.d_position_table) + row * args.width + column, sum, args.accumulate_position);
}

template <class T, class G, int N>
void enqueue_sums(const EmbeddingBackward& args, const SortedTokens& sorted, const Launch& launch) {
  if (!args.accumulate) {
    check_device(cudaMemsetAsync(args.d_token_table, 0, args.vocabulary * args.width * sizeof(G), launch.stream),
                 "embedding backward");
  }
  if (args.tokens > 0) {
    const dim3 grid(static_cast<unsigned>((args.tokens + kWarps - 1) / kWarps),
                    static_cast<unsigned>((args.width + 32 * N - 1) / (32 * N)));
    sum_ids_kernel<T, G, N><<<grid, kThreads, 0, launch.stream>>>(args, sorted);
    check_launch("embedding backward");
  }
  if (args.d_position_table == nullptr) return;
  const std::size_t vectors = args.positions * args.width / N;
  ZP_CHECK(vectors < (std::size_t{1} << 32));
  positions_kernel<T, G, N><<<static_cast<unsigned>((vectors + kThreads - 1) / kThreads), kThreads, 0, launch.stream>>>(
      args, static_cast<unsigned>(vectors), static_cast<unsigned>(args.width / N));
  check_launch("position embedding backward");
}

}  // namespace

void enqueue(const EmbeddingForward& args, const Launch& launch) {
  if (args.tokens * args.width == 0) return;
  const bool can = args.width % kVector == 0 && aligned({args.token_table, args.position_table, args.out});
  const std::size_t each = can ? kVector : 1;
  const std::size_t vectors = args.tokens * args.width / each;
  ZP_CHECK(vectors < (std::size_t{1} << 32));
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto kernel = can ? forward_kernel<T, kVector> : forward_kernel<T, 1>;
    kernel<<<static_cast<unsigned>((vectors + kThreads - 1) / kThreads), kThreads, 0, launch.stream>>>(
        args, static_cast<unsigned>(vectors), static_cast<unsigned>(args.width / each));
  });
  check_launch("embedding forward");
}

void enqueue(const EmbeddingBackward& args, const Launch& launch) {
  ZP_CHECK(args.vocabulary > 0 && args.width > 0 && args.tokens < (std::size_t{1} << 31));
  ZP_CHECK(launch.workspace_bytes >= workspace_bytes(args));
  const SortedTokens sorted = args.tokens > 0 ? enqueue_sort(args, launch) : SortedTokens{};
  const bool can = args.width % kVector == 0 && aligned({args.d_out, args.d_token_table, args.d_position_table});
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    with_type(args.gradient_dtype, [&](auto gradient_tag) {
      using G = typename decltype(gradient_tag)::Type;
      if (can) {
        enqueue_sums<T, G, kVector>(args, sorted, launch);
      } else {
        enqueue_sums<T, G, 1>(args, sorted, launch);
      }
    });
  });
}

}  // namespace zeroplan::kernels::cuda
