#include "planner/packing/conflict_index.h"

#include <algorithm>

#include "models/core/units.h"

namespace zeroplan::planner {

ConflictIndex::ConflictIndex(const ConflictInstance& instance)
    : sizes_(instance.sizes), first_(instance.first_position), last_(instance.last_position) {
  const std::size_t n = instance.sizes.size();
  ZP_CHECK(n < UINT32_MAX && instance.conflicts.size() == n && first_.size() == n && last_.size() == n);
  ZP_CHECK(instance.pinned.empty() || instance.pinned.size() == n);
  std::uint64_t total = 0;
  std::size_t edges = 0;
  begins_.reserve(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    total = detail::checked_add(total, sizes_[i]);
    begins_.push_back(edges);
    edges += instance.conflicts[i].size();
    ZP_CHECK(first_[i] <= last_[i]);
  }
  begins_.push_back(edges);
  if (total > INT64_MAX) throw Error(ErrorCode::kOverflow, "the sizes of all buffers together leave 63 bits");
  neighbours_.reserve(edges);
  for (std::size_t i = 0; i < n; ++i) {
    const auto& row = instance.conflicts[i];
    ZP_CHECK(row.empty() || row.back() < n);
    ZP_CHECK(std::is_sorted(row.begin(), row.end()));
    neighbours_.insert(neighbours_.end(), row.begin(), row.end());
  }
}

}  // namespace zeroplan::planner
