// Places buffers one after another in a given order, each in the lowest or highest gap between those that it conflicts with.
// Main type: AddressFit. Depends on planner/packing/conflict_index.h.
#pragma once

#include <optional>
#include <vector>

#include "planner/packing/conflict_index.h"

namespace zeroplan::planner {

/// Which end of the arena a buffer is placed from.
enum class ArenaEnd : std::uint8_t { kBottom, kTop };

class AddressFit {
 public:
  /// \param pinned  fixed offsets or kNotPinned; empty if none is
  AddressFit(const ConflictIndex& index, std::span<const std::uint64_t> pinned);

  /// \param order    every buffer once; pinned ones keep their place whatever their position
  /// \param ends     per buffer; empty: all from the bottom
  /// \param ceiling  where buffers from the top start; one that finds no gap below it is placed from the bottom
  /// \returns the height
  std::uint64_t place(std::span<const std::uint32_t> order, std::span<const ArenaEnd> ends = {}, std::uint64_t ceiling = 0);

  const std::vector<std::uint64_t>& offsets() const { return offsets_; }
  bool is_pinned(std::uint32_t buffer) const { return !pinned_.empty() && pinned_[buffer] != kNotPinned; }
  std::uint64_t pinned_end(std::uint32_t buffer) const { return pinned_[buffer] + index_.size(buffer); }

 private:
  struct Taken {
    std::uint64_t begin;
    std::uint64_t end;
  };
  void collect_taken(std::uint32_t buffer);
  std::uint64_t lowest_gap(std::uint64_t size) const;
  std::optional<std::uint64_t> highest_gap(std::uint64_t size, std::uint64_t ceiling) const;

  const ConflictIndex& index_;
  std::span<const std::uint64_t> pinned_;
  std::vector<std::uint64_t> offsets_;  ///< kNotPinned while not placed
  std::vector<Taken> taken_;            ///< of the buffer at hand, by begin
};

}  // namespace zeroplan::planner
