#include "planner/packing/address_fit.h"

#include <algorithm>

namespace zeroplan::planner {

AddressFit::AddressFit(const ConflictIndex& index, std::span<const std::uint64_t> pinned)
    : index_(index), pinned_(pinned), offsets_(index.count(), kNotPinned) {}

std::uint64_t AddressFit::place(std::span<const std::uint32_t> order, std::span<const ArenaEnd> ends, std::uint64_t ceiling) {
  std::uint64_t height = 0;
  for (std::uint32_t b = 0; b < index_.count(); ++b) {
    offsets_[b] = pinned_.empty() ? kNotPinned : pinned_[b];
    if (offsets_[b] != kNotPinned) height = std::max(height, offsets_[b] + index_.size(b));
  }
  for (const std::uint32_t b : order) {
    if (is_pinned(b)) continue;
    if (index_.size(b) == 0) {
      offsets_[b] = 0;
      continue;
    }
    collect_taken(b);
    std::optional<std::uint64_t> at;
    if (!ends.empty() && ends[b] == ArenaEnd::kTop) at = highest_gap(index_.size(b), ceiling);
    offsets_[b] = at ? *at : lowest_gap(index_.size(b));
    height = std::max(height, offsets_[b] + index_.size(b));
  }
  return height;
}

void AddressFit::collect_taken(std::uint32_t buffer) {
  taken_.clear();
  for (const std::uint32_t other : index_.neighbours(buffer)) {
    if (offsets_[other] != kNotPinned && index_.size(other) > 0) taken_.push_back({offsets_[other], offsets_[other] + index_.size(other)});
  }
  std::sort(taken_.begin(), taken_.end(), [](const Taken& x, const Taken& y) { return x.begin < y.begin; });
}

std::uint64_t AddressFit::lowest_gap(std::uint64_t size) const {
  std::uint64_t at = 0;
  for (const Taken& t : taken_) {
    if (t.begin >= at && t.begin - at >= size) break;
    at = std::max(at, t.end);
  }
  return at;
}

std::optional<std::uint64_t> AddressFit::highest_gap(std::uint64_t size, std::uint64_t ceiling) const {
  std::optional<std::uint64_t> best;
  std::uint64_t free_from = 0;
  for (const Taken& t : taken_) {
    const std::uint64_t free_to = std::min(t.begin, ceiling);
    if (free_to >= free_from && free_to - free_from >= size) best = free_to - size;
    free_from = std::max(free_from, t.end);
  }
  if (ceiling >= free_from && ceiling - free_from >= size) best = ceiling - size;
  return best;
}

}  // namespace zeroplan::planner
