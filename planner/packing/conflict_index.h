// The conflicts of an instance as flat rows, checked once. Main type: ConflictIndex. Depends on
// planner/packing/packing.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/packing/packing.h"

namespace zeroplan::planner {

/// Copies what the inner loops read, so that neighbours lie side by side.
class ConflictIndex {
 public:
  /// \throws Error{kInternal} if the parts of the instance do not match, Error{kOverflow} if all sizes together leave
  /// 63 bits
  explicit ConflictIndex(const ConflictInstance& instance);

  std::uint32_t count() const { return static_cast<std::uint32_t>(sizes_.size()); }
  std::size_t edges() const { return neighbours_.size(); }
  std::uint64_t size(std::uint32_t buffer) const { return sizes_[buffer]; }
  std::span<const std::uint32_t> neighbours(std::uint32_t buffer) const {
    return {neighbours_.data() + begins_[buffer], begins_[buffer + 1] - begins_[buffer]};
  }
  std::span<const Stay> stays() const { return stays_; }
  /// The stay that stands for the buffer in orders: its first one, or what `look_from` chose.
  std::uint32_t first(std::uint32_t buffer) const { return first_[buffer]; }
  std::uint32_t last(std::uint32_t buffer) const { return last_[buffer]; }
  /// Lets the stay nearest to a position stand for each buffer: a buffer that is live there by the stay that it has
  /// there.
  void look_from(std::uint32_t position);

 private:
  std::span<const std::uint64_t> sizes_;
  std::span<const Stay> stays_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> last_;
  std::vector<std::size_t> begins_;
  std::vector<std::uint32_t> neighbours_;
};

}  // namespace zeroplan::planner
