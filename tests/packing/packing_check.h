// What every packing must be, checked without the packers: pair by pair, and by trying everything.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "planner/packing/packing.h"

namespace zeroplan::planner {

/// True if no two buffers that are live at once share an address and each offset is a multiple of the alignment.
bool is_valid(std::span<const IntervalBuffer> buffers, std::span<const std::uint64_t> offsets, std::uint64_t alignment);
bool is_valid(const ConflictInstance& instance, std::span<const std::uint64_t> offsets);

/// End of the highest buffer.
std::uint64_t height_of(std::span<const IntervalBuffer> buffers, std::span<const std::uint64_t> offsets);

/// The largest sum of sizes that are live at one time.
std::uint64_t most_live(std::span<const IntervalBuffer> buffers);

/// The lowest height of all packings, by placing in every order: some order of placement at the lowest free offset is
/// optimal. For at most 8 buffers.
std::uint64_t lowest_by_trying_all(std::span<const IntervalBuffer> buffers);
std::uint64_t lowest_by_trying_all(const ConflictInstance& instance);

/// Buffers with lives in [0, times) and sizes from 1 to most_size.
std::vector<IntervalBuffer> random_buffers(std::mt19937_64& random, std::uint32_t count, std::int64_t times,
                                           std::uint64_t most_size);

/// Cut from a rectangle of that height and duration without loss, so the optimum is the height.
std::vector<IntervalBuffer> cut_rectangle(std::mt19937_64& random, std::uint32_t cuts, std::int64_t duration,
                                          std::uint64_t height);

/// The same question with conflicts listed.
ConflictInstance listed(std::span<const IntervalBuffer> buffers);

}  // namespace zeroplan::planner
