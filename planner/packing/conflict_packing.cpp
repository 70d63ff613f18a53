#include <algorithm>
#include <numeric>

#include "models/core/units.h"
#include "planner/packing/address_fit.h"
#include "planner/packing/clique_cover.h"
#include "planner/packing/packing.h"
#include "planner/packing/weighted_descents.h"

namespace zeroplan::planner {
namespace {

using Order = std::vector<std::uint32_t>;

/// Conflicts as listed: the neighbours of the selected buffer are marked.
class ListedConflicts {
 public:
  explicit ListedConflicts(const ConflictIndex& index) : index_(&index), marks_(index.count(), kNone) {}
  std::uint32_t count() const { return index_->count(); }
  std::uint64_t size(std::uint32_t buffer) const { return index_->size(buffer); }
  void select(std::uint32_t buffer) {
    selected_ = buffer;
    for (const std::uint32_t other : index_->neighbours(buffer)) marks_[other] = buffer;
  }
  bool conflicts(std::uint32_t other) const { return marks_[other] == selected_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  const ConflictIndex* index_;
  std::vector<std::uint32_t> marks_;  ///< the buffer whose neighbour it was last
  std::uint32_t selected_ = kNone;
};

/// The search for one instance: keeps the lowest packing, ends when it meets the bound.
class ConflictPacker {
 public:
  ConflictPacker(const ConflictInstance& instance, ConflictIndex& index)
      : index_(index),
        pinned_(instance.pinned),
        fit_(ListedConflicts(index), instance.pinned),
        in_clique_(index.count(), false) {}

  ConflictPacking pack(std::uint64_t most_work);

 private:
  bool is_done() const { return best_.height <= bound_; }
  void keep(const std::vector<std::uint64_t>& offsets);
  /// Places in that order, keeps the result if it is the lowest.
  void attempt(const Order& order);
  template <class Before>
  Order sorted(Before before) const;
  std::vector<Order> greedy_orders() const;
  void search_deeply(std::uint64_t most_work);
  void set_bound(SeatedClique heaviest);

  ConflictIndex& index_;
  std::span<const std::uint64_t> pinned_;
  AddressFit<ListedConflicts> fit_;
  ConflictPacking best_;
  std::uint64_t bound_ = 0;
  std::vector<bool> in_clique_;
};

template <class Before>
Order ConflictPacker::sorted(Before before) const {
  Order order(index_.count());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

void ConflictPacker::attempt(const Order& order) {
  fit_.place(order);
  keep(fit_.offsets());
}

void ConflictPacker::keep(const std::vector<std::uint64_t>& offsets) {
  std::uint64_t height = 0;
  for (std::uint32_t b = 0; b < index_.count(); ++b) height = std::max(height, offsets[b] + index_.size(b));
  if (height >= best_.height && !best_.offsets.empty()) return;
  best_.height = height;
  best_.offsets = offsets;
}

/// Those that meet the bound most often come first.
std::vector<Order> ConflictPacker::greedy_orders() const {
  const auto life = [&](std::uint32_t b) { return index_.last(b) - index_.first(b); };
  return {
      sorted([&](auto a, auto b) { return in_clique_[a] != in_clique_[b] ? in_clique_[a] : life(a) > life(b); }),
      sorted([&](auto a, auto b) { return index_.size(a) > index_.size(b); }),
      sorted([&](auto a, auto b) { return life(a) > life(b); }),
      sorted([&](auto a, auto b) { return index_.first(a) < index_.first(b); }),
  };
}

/// Buffers beyond which the search in depth would need too much memory for its table of conflicts.
constexpr std::uint32_t kMostSearched = 1 << 14;
/// Elementary operations for the cover. The same whatever the effort, so that more effort continues the same search.
constexpr std::uint64_t kMostCoverWork = 50'000'000;
/// Capacities above the bound that are tried once the bound itself was not met.
constexpr int kRelaxations = 4;

/// Looks for heavier cliques, then for a packing that meets them; failing that, for one that is lower than the best.
void ConflictPacker::search_deeply(std::uint64_t most_work) {
  std::vector<SeatedClique> cover = cover_by_cliques(index_, kMostCoverWork);
  const auto heaviest = std::max_element(
      cover.begin(), cover.end(), [](const auto& a, const auto& b) { return a.clique.weight < b.clique.weight; });
  if (heaviest != cover.end() && heaviest->clique.weight > bound_) set_bound(*heaviest);
  WeightedDescents descents(index_, cover);
  if (const auto offsets = descents.find(bound_, most_work)) keep(*offsets);
  std::uint64_t missed = bound_;
  for (int i = 0; i < kRelaxations && !is_done(); ++i) {
    const std::uint64_t capacity = missed + (best_.height - missed) / 2;
    if (const auto offsets = descents.find(capacity, most_work / 8)) {
      keep(*offsets);
    } else {
      missed = capacity;
    }
  }
}

void ConflictPacker::set_bound(SeatedClique heaviest) {
  index_.look_from(heaviest.position);
  best_.clique = std::move(heaviest.clique.members);
  best_.clique_weight = heaviest.clique.weight;
  std::fill(in_clique_.begin(), in_clique_.end(), false);
  for (const std::uint32_t b : best_.clique) in_clique_[b] = true;
  bound_ = best_.clique_weight;
  for (std::uint32_t b = 0; b < index_.count(); ++b) {
    if (fit_.is_pinned(b)) bound_ = std::max(bound_, pinned_[b] + index_.size(b));
  }
}

ConflictPacking ConflictPacker::pack(std::uint64_t most_work) {
  set_bound(find_heaviest_clique(index_));
  for (const Order& order : greedy_orders()) {
    attempt(order);
    if (is_done()) return best_;
  }
  const bool is_any_pinned = std::any_of(pinned_.begin(), pinned_.end(), [](auto at) { return at != kNotPinned; });
  if (!is_done() && !is_any_pinned && index_.count() <= kMostSearched) search_deeply(most_work);
  return best_;
}

/// \throws Error{kInvalidInput} if the caller pinned two buffers onto one another
void check_pinned(const ConflictInstance& instance) {
  if (instance.pinned.empty()) return;
  for (std::uint32_t a = 0; a < instance.sizes.size(); ++a) {
    if (instance.pinned[a] == kNotPinned) continue;
    if (detail::checked_add(instance.pinned[a], instance.sizes[a]) > INT64_MAX) detail::count_overflow();
    for (const std::uint32_t b : instance.conflicts[a]) {
      if (instance.pinned[b] == kNotPinned || instance.sizes[a] == 0 || instance.sizes[b] == 0) continue;
      if (instance.pinned[a] < instance.pinned[b] + instance.sizes[b] &&
          instance.pinned[b] < instance.pinned[a] + instance.sizes[a]) {
        throw Error(ErrorCode::kInvalidInput, "two pinned buffers that are live at once overlap");
      }
    }
  }
}

}  // namespace

ConflictPacking pack_conflicts(const ConflictInstance& instance, std::uint64_t most_work) {
  check_pinned(instance);
  ConflictIndex index(instance);
  return ConflictPacker(instance, index).pack(most_work);
}

}  // namespace zeroplan::planner
