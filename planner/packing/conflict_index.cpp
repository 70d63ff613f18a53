#include "planner/packing/conflict_index.h"

#include <algorithm>

#include "models/core/units.h"

namespace zeroplan::planner {

ConflictIndex::ConflictIndex(const ConflictInstance& instance)
    : sizes_(instance.sizes),
      stays_(instance.stays),
      first_(instance.sizes.size(), UINT32_MAX),
      last_(instance.sizes.size(), 0) {
  const std::size_t n = instance.sizes.size();
  ZP_CHECK(n < UINT32_MAX && instance.conflicts.size() == n);
  ZP_CHECK(instance.pinned.empty() || instance.pinned.size() == n);
  std::uint64_t total = 0;
  std::size_t edges = 0;
  begins_.reserve(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    total = detail::checked_add(total, sizes_[i]);
    begins_.push_back(edges);
    edges += instance.conflicts[i].size();
  }
  begins_.push_back(edges);
  for (const Stay& stay : stays_) ZP_CHECK(stay.buffer < n && stay.first <= stay.last);
  look_from(0);
  ZP_CHECK(std::find(first_.begin(), first_.end(), UINT32_MAX) == first_.end());
  if (total > INT64_MAX) throw Error(ErrorCode::kOverflow, "the sizes of all buffers together leave 63 bits");
  neighbours_.reserve(edges);
  for (std::size_t i = 0; i < n; ++i) {
    const auto& row = instance.conflicts[i];
    ZP_CHECK(row.empty() || row.back() < n);
    ZP_CHECK(std::is_sorted(row.begin(), row.end()));
    neighbours_.insert(neighbours_.end(), row.begin(), row.end());
  }
}

void ConflictIndex::look_from(std::uint32_t position) {
  std::vector<std::uint32_t> distance(first_.size(), UINT32_MAX);
  for (const Stay& stay : stays_) {
    const std::uint32_t away = position < stay.first  ? stay.first - position
                               : position > stay.last ? position - stay.last
                                                      : 0;
    if (away >= distance[stay.buffer]) continue;
    distance[stay.buffer] = away;
    first_[stay.buffer] = stay.first;
    last_[stay.buffer] = stay.last;
  }
}

}  // namespace zeroplan::planner
