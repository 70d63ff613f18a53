// Places buffers one after another in a given order, each in the lowest or highest gap between those that it conflicts
// with. Main type: AddressFit over a Relation, which says who conflicts with the buffer at hand. Depends on
// planner/packing/packing.h.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "planner/packing/packing.h"

namespace zeroplan::planner {

/// Which end of the arena a buffer is placed from.
enum class ArenaEnd : std::uint8_t { kBottom, kTop };

/// What `order` and `ends` mean for the end of the arena: buffers from the top hang below the ceiling.
struct FitFromTop {
  std::span<const ArenaEnd> ends = {};  ///< per buffer; empty: all from the bottom
  std::uint64_t ceiling = 0;            ///< a buffer that finds no gap below it is placed from the bottom
};

/// Relation: `count()`, `size(buffer)`, `select(buffer)`, then `conflicts(other)` with the selected one.
/// Cost of one placement: the buffers placed so far, in order of addresses, up to the gap.
template <class Relation>
class AddressFit {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// \param pinned    fixed offsets or kNotPinned; empty if none is
  /// \param deadline  what is not placed by then is stacked on top
  AddressFit(Relation relation, std::span<const std::uint64_t> pinned, Deadline deadline = Deadline::max())
      : relation_(std::move(relation)), pinned_(pinned), deadline_(deadline), offsets_(relation_.count(), kNotPinned) {
    placed_.reserve(relation_.count());
  }

  /// Places every buffer of the order; pinned ones keep their place whatever their position. \returns the height
  std::uint64_t place(std::span<const std::uint32_t> order, const FitFromTop& top = {}) {
    height_ = 0;
    placed_.clear();
    std::fill(offsets_.begin(), offsets_.end(), kNotPinned);
    for (std::uint32_t b = 0; b < relation_.count(); ++b) {
      if (is_pinned(b)) put(b, pinned_[b]);
    }
    for (const std::uint32_t b : order) {
      if (is_pinned(b)) continue;
      if (deadline_ != Deadline::max() && std::chrono::steady_clock::now() >= deadline_) {
        put(b, relation_.size(b) == 0 ? 0 : height_);
      } else {
        place_one(b, top);
      }
    }
    return height_;
  }

  const std::vector<std::uint64_t>& offsets() const { return offsets_; }
  bool is_pinned(std::uint32_t buffer) const { return !pinned_.empty() && pinned_[buffer] != kNotPinned; }
  std::uint64_t end_of(std::uint32_t buffer) const { return offsets_[buffer] + relation_.size(buffer); }

 private:
  struct Placed {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t buffer;
  };

  void place_one(std::uint32_t b, const FitFromTop& top) {
    if (relation_.size(b) == 0) {
      offsets_[b] = 0;
      return;
    }
    relation_.select(b);
    std::optional<std::uint64_t> at;
    if (!top.ends.empty() && top.ends[b] == ArenaEnd::kTop) at = highest_gap(relation_.size(b), top.ceiling);
    put(b, at ? *at : lowest_gap(relation_.size(b)));
  }

  void put(std::uint32_t b, std::uint64_t at) {
    offsets_[b] = at;
    if (relation_.size(b) == 0) return;
    height_ = std::max(height_, end_of(b));
    const auto after = std::upper_bound(placed_.begin(), placed_.end(), at,
                                        [](std::uint64_t x, const Placed& p) { return x < p.begin; });
    placed_.insert(after, {at, end_of(b), b});
  }

  std::uint64_t lowest_gap(std::uint64_t size) const {
    std::uint64_t at = 0;
    for (const Placed& p : placed_) {
      if (p.end <= at || !relation_.conflicts(p.buffer)) continue;
      if (p.begin >= at && p.begin - at >= size) break;
      at = p.end;
    }
    return at;
  }

  std::optional<std::uint64_t> highest_gap(std::uint64_t size, std::uint64_t ceiling) const {
    std::optional<std::uint64_t> best;
    std::uint64_t free_from = 0;
    for (const Placed& p : placed_) {
      if (p.end <= free_from || !relation_.conflicts(p.buffer)) continue;
      const std::uint64_t free_to = std::min(p.begin, ceiling);
      if (free_to >= free_from && free_to - free_from >= size) best = free_to - size;
      free_from = p.end;
    }
    if (ceiling >= free_from && ceiling - free_from >= size) best = ceiling - size;
    return best;
  }

  Relation relation_;
  std::span<const std::uint64_t> pinned_;
  Deadline deadline_;
  std::vector<std::uint64_t> offsets_;  ///< kNotPinned while not placed
  std::vector<Placed> placed_;          ///< by begin
  std::uint64_t height_ = 0;
};

}  // namespace zeroplan::planner
