#include "kernels/cuda/plugin/words.h"

namespace zeroplan::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocks = static_cast<int>(kCountParts);

__global__ void fill_kernel(std::uint32_t* begin, std::uint32_t value, std::size_t words) {
  const std::size_t step = std::size_t{kBlocks} * kThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += step) begin[i] = value;
}

__global__ void count_kernel(const std::uint32_t* begin, std::uint32_t value, std::size_t words,
                             std::uint64_t* counts) {
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  const std::size_t step = std::size_t{kBlocks} * kThreads;
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += step)
    mine += begin[i] == value ? 1 : 0;
  atomicAdd(&sum, mine);  // whole numbers: the order does not matter
  __syncthreads();
  if (threadIdx.x == 0) counts[blockIdx.x] = sum;
}

}  // namespace

void fill_words(std::uint32_t* begin, std::uint32_t value, std::size_t words, cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(begin, value, words);
}

void count_words(const std::uint32_t* begin, std::uint32_t value, std::size_t words, std::uint64_t* counts,
                 cudaStream_t stream) {
  count_kernel<<<kBlocks, kThreads, 0, stream>>>(begin, value, words, counts);
}

}  // namespace zeroplan::kernels::cuda
