#include "simulator/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "models/core/error.h"

namespace zeroplan::simulator {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kBlockRounding = 512;
constexpr std::uint64_t kSmallRequest = kMiB;  // larger ones come from the large pool
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kLargeSegment = 20 * kMiB;  // shared by requests below kOwnSegment
constexpr std::uint64_t kOwnSegment = 10 * kMiB;    // from here on a segment is made to measure
constexpr std::uint64_t kSegmentRounding = 2 * kMiB;
// Segments of the driver never touch each other, so that blocks of two segments are never merged by address.
constexpr std::uint64_t kSegmentGap = 2 * kMiB;
// Room of the address space for one expandable segment.
constexpr std::uint64_t kExpandableSpan = std::uint64_t{1} << 50;

std::uint64_t round_to(std::uint64_t bytes, std::uint64_t multiple) {
  return round_up(Bytes(bytes), multiple).count();
}

}  // namespace

CachingAllocator::CachingAllocator(AllocatorOptions options) : options_(options) {
  last_of_segment_.fill(kNoBlock);
}

std::uint64_t CachingAllocator::rounded(std::uint64_t bytes) const {
  if (bytes < kBlockRounding) return kBlockRounding;
  const std::uint64_t divisions = options_.roundup_power2_divisions;
  if (divisions > 1 && bytes > kBlockRounding * divisions) {
    const std::uint64_t floor = std::bit_floor(bytes);
    if (floor == bytes) return bytes;
    return round_to(bytes, std::max<std::uint64_t>(1, floor / divisions));
  }
  return round_to(bytes, kBlockRounding);
}

std::uint8_t CachingAllocator::pool_of(std::uint64_t rounded_bytes, StreamId stream) const {
  return static_cast<std::uint8_t>(2 * stream + (rounded_bytes <= kSmallRequest ? 0 : 1));
}

std::uint64_t CachingAllocator::segment_bytes(std::uint64_t rounded_bytes) const {
  if (rounded_bytes <= kSmallRequest) return kSmallSegment;
  return rounded_bytes < kOwnSegment ? kLargeSegment : round_to(rounded_bytes, kSegmentRounding);
}

bool CachingAllocator::should_split(const Block& block, std::uint64_t rounded_bytes) const {
  const std::uint64_t remainder = block.bytes - rounded_bytes;
  if (is_small(block.pool) || options_.expandable_segments) return remainder >= kBlockRounding;
  return (!options_.max_split_bytes || rounded_bytes < *options_.max_split_bytes) && remainder > kSmallRequest;
}

BlockId CachingAllocator::new_block(const Block& block) {
  if (!unused_ids_.empty()) {
    const BlockId id = unused_ids_.back();
    unused_ids_.pop_back();
    blocks_[id] = block;
    return id;
  }
  blocks_.push_back(block);
  return static_cast<BlockId>(blocks_.size() - 1);
}

void CachingAllocator::insert_free(BlockId id) {
  const Block& b = blocks_[id];
  free_[b.pool].insert({b.bytes, b.address, id});
}

void CachingAllocator::erase_free(BlockId id) {
  const Block& b = blocks_[id];
  free_[b.pool].erase({b.bytes, b.address, id});
}

BlockId CachingAllocator::find_free(std::uint8_t pool, std::uint64_t rounded_bytes) {
  std::set<FreeKey>& candidates = free_[pool];
  const auto it = candidates.lower_bound({rounded_bytes, 0, 0});
  if (it == candidates.end()) return kNoBlock;
  if (options_.max_split_bytes) {
    const std::uint64_t limit = *options_.max_split_bytes;
    if (rounded_bytes < limit && it->bytes >= limit) return kNoBlock;
    if (rounded_bytes >= limit && it->bytes >= rounded_bytes + kLargeSegment) return kNoBlock;
  }
  const BlockId id = it->block;
  candidates.erase(it);
  return id;
}

void CachingAllocator::make_room(std::uint64_t bytes) {
  if (!options_.capacity_bytes || reserved_ + bytes <= *options_.capacity_bytes) return;
  empty_cache();
  if (reserved_ + bytes > *options_.capacity_bytes) exceeded_ = true;
}

BlockId CachingAllocator::new_segment(std::uint8_t pool, std::uint64_t rounded_bytes) {
  const std::uint64_t bytes = segment_bytes(rounded_bytes);
  make_room(bytes);
  const BlockId id = new_block({.address = next_address_, .bytes = bytes, .pool = pool});
  next_address_ = detail::checked_add(next_address_, detail::checked_add(bytes, kSegmentGap));
  reserved_ = detail::checked_add(reserved_, bytes);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return id;
}

BlockId CachingAllocator::grow_segment(std::uint8_t pool, std::uint64_t rounded_bytes) {
  const BlockId top = last_of_segment_[pool];
  const bool extend = top != kNoBlock && !blocks_[top].used;
  const std::uint64_t there = extend ? blocks_[top].bytes : 0;
  const std::uint64_t grown = round_to(rounded_bytes - there, is_small(pool) ? kSmallSegment : kLargeSegment);
  make_room(grown);
  reserved_ = detail::checked_add(reserved_, grown);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  if (extend) {
    erase_free(top);
    blocks_[top].bytes += grown;
    return top;
  }
  Block block{.address = pool * kExpandableSpan, .bytes = grown, .previous = top, .pool = pool};
  if (top != kNoBlock) block.address = blocks_[top].address + blocks_[top].bytes;
  const BlockId id = new_block(block);
  if (top != kNoBlock) blocks_[top].next = id;
  last_of_segment_[pool] = id;
  return id;
}

BlockId CachingAllocator::allocate(std::uint64_t bytes, StreamId stream) {
  if (bytes == 0) return kNoBlock;
  ZP_CHECK(stream < kMostStreams);
  const std::uint64_t wanted = rounded(bytes);
  const std::uint8_t pool = pool_of(wanted, stream);
  BlockId id = find_free(pool, wanted);
  if (id == kNoBlock) id = options_.expandable_segments ? grow_segment(pool, wanted) : new_segment(pool, wanted);
  if (should_split(blocks_[id], wanted)) {
    Block rest = blocks_[id];
    rest.address += wanted;
    rest.bytes -= wanted;
    rest.previous = id;
    const BlockId rest_id = new_block(rest);
    if (rest.next != kNoBlock) blocks_[rest.next].previous = rest_id;
    blocks_[id].bytes = wanted;
    blocks_[id].next = rest_id;
    if (last_of_segment_[pool] == id) last_of_segment_[pool] = rest_id;
    insert_free(rest_id);
  }
  blocks_[id].used = true;
  allocated_ += blocks_[id].bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return id;
}

/// The two are neighbours; the second disappears. Neither is in the free set.
void CachingAllocator::merge_with_next(BlockId id) {
  Block& block = blocks_[id];
  const BlockId gone = block.next;
  block.bytes += blocks_[gone].bytes;
  block.next = blocks_[gone].next;
  if (block.next != kNoBlock) blocks_[block.next].previous = id;
  if (last_of_segment_[block.pool] == gone) last_of_segment_[block.pool] = id;
  unused_ids_.push_back(gone);
}

void CachingAllocator::release(BlockId id) {
  if (id == kNoBlock) return;
  ZP_CHECK(id < blocks_.size() && blocks_[id].used);
  blocks_[id].used = false;
  allocated_ -= blocks_[id].bytes;
  const BlockId next = blocks_[id].next;
  if (next != kNoBlock && !blocks_[next].used) {
    erase_free(next);
    merge_with_next(id);
  }
  const BlockId previous = blocks_[id].previous;
  if (previous != kNoBlock && !blocks_[previous].used) {
    erase_free(previous);
    merge_with_next(previous);
    id = previous;
  }
  insert_free(id);
}

void CachingAllocator::empty_cache() {
  for (std::size_t pool = 0; pool < free_.size(); ++pool) {
    std::set<FreeKey>& candidates = free_[pool];
    for (auto it = candidates.begin(); it != candidates.end();) {
      const Block& block = blocks_[it->block];
      const bool alone = block.previous == kNoBlock && block.next == kNoBlock;
      const bool top = options_.expandable_segments && last_of_segment_[pool] == it->block;
      if (!alone && !top) {
        ++it;
        continue;
      }
      reserved_ -= block.bytes;
      if (block.previous != kNoBlock) blocks_[block.previous].next = kNoBlock;
      if (top) last_of_segment_[pool] = block.previous;
      unused_ids_.push_back(it->block);
      it = candidates.erase(it);
    }
  }
}

}  // namespace zeroplan::simulator
