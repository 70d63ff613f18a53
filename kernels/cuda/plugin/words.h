// 32-bit words of device memory: filling and counting. Depends on nothing but the runtime's stream type.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace zeroplan::kernels::cuda {

void fill_words(std::uint32_t* begin, std::uint32_t value, std::size_t words, cudaStream_t stream);
/// Parts in which words are counted.
constexpr std::size_t kCountParts = 1024;
/// counts[0 ... kCountParts), which the card reaches: how many words of each part equal `value`.
void count_words(const std::uint32_t* begin, std::uint32_t value, std::size_t words, std::uint64_t* counts,
                 cudaStream_t stream);

}  // namespace zeroplan::kernels::cuda
