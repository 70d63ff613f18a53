// PyTorch's CUDA caching allocator as a state machine. Purpose: from the order of allocations and frees alone, how much
// the allocator hands out and how much it holds from the driver. Main types: AllocatorOptions, CachingAllocator. Rules:
// c10's allocator (rounding, pools per stream, best fit, splitting, merging, expandable segments). Depends on
// models/core.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "models/core/units.h"

namespace zeroplan::simulator {

/// What PYTORCH_CUDA_ALLOC_CONF may change, and the device's size.
struct AllocatorOptions {
  bool expandable_segments = false;
  std::uint32_t roundup_power2_divisions = 0;                   ///< 0 or 1: off
  std::optional<std::uint64_t> max_split_bytes = std::nullopt;  ///< blocks of at least so much are never split
  std::optional<std::uint64_t> capacity_bytes =
      std::nullopt;  ///< the driver refuses beyond this; then cached segments are given back
};

/// Streams have pools of their own: a block freed on one is never handed out on another.
using StreamId = std::uint8_t;
constexpr std::size_t kMostStreams = 8;

/// A block that was handed out. Not copied about by value of its size: ask the allocator.
using BlockId = std::uint32_t;
constexpr BlockId kNoBlock = 0xffffffff;  ///< of an allocation of no bytes

/// Single-threaded. Every call is O(log free blocks).
class CachingAllocator {
 public:
  explicit CachingAllocator(AllocatorOptions options = {});

  /// Hands out a block of at least `bytes`. No bytes give kNoBlock.
  BlockId allocate(std::uint64_t bytes, StreamId stream = 0);
  /// Takes a block back at once (no foreign stream uses it). kNoBlock is ignored. \throws Error{kInternal} for a block
  /// that is free.
  void release(BlockId block);
  /// Gives back to the driver every segment that no block uses.
  void empty_cache();

  /// Bytes of a block: what allocated_bytes counts, an unsplit remainder included.
  std::uint64_t size_of(BlockId block) const { return block == kNoBlock ? 0 : blocks_[block].bytes; }
  std::uint64_t allocated_bytes() const { return allocated_; }
  std::uint64_t reserved_bytes() const { return reserved_; }
  std::uint64_t peak_allocated_bytes() const { return peak_allocated_; }
  std::uint64_t peak_reserved_bytes() const { return peak_reserved_; }
  /// True once a request went beyond the capacity although every free segment had been given back.
  bool exceeded_capacity() const { return exceeded_; }

  /// A request as the allocator rounds it. \throws Error{kOverflow}
  std::uint64_t rounded(std::uint64_t bytes) const;

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    BlockId previous = kNoBlock;  ///< neighbours within the segment
    BlockId next = kNoBlock;
    std::uint8_t pool = 0;
    bool used = false;
  };
  struct FreeKey {
    std::uint64_t bytes;
    std::uint64_t address;
    BlockId block;
    friend bool operator<(const FreeKey& a, const FreeKey& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
    }
  };

  std::uint8_t pool_of(std::uint64_t rounded_bytes, StreamId stream) const;
  bool is_small(std::uint8_t pool) const { return pool % 2 == 0; }
  std::uint64_t segment_bytes(std::uint64_t rounded_bytes) const;
  bool should_split(const Block& block, std::uint64_t rounded_bytes) const;
  BlockId find_free(std::uint8_t pool, std::uint64_t rounded_bytes);
  BlockId new_segment(std::uint8_t pool, std::uint64_t rounded_bytes);
  BlockId grow_segment(std::uint8_t pool, std::uint64_t rounded_bytes);
  BlockId new_block(const Block& block);
  void merge_with_next(BlockId block);
  void make_room(std::uint64_t bytes);
  void insert_free(BlockId block);
  void erase_free(BlockId block);

  AllocatorOptions options_;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_ids_;
  std::array<std::set<FreeKey>, 2 * kMostStreams> free_;  ///< by pool: small and large of each stream
  std::array<BlockId, 2 * kMostStreams>
      last_of_segment_;  ///< expandable segments: the block at the top of each pool's segment
  std::uint64_t next_address_ = 0;
  std::uint64_t allocated_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t peak_allocated_ = 0;
  std::uint64_t peak_reserved_ = 0;
  bool exceeded_ = false;
};

}  // namespace zeroplan::simulator
