#include <algorithm>
#include <numeric>

#include "models/core/units.h"
#include "planner/packing/address_fit.h"
#include "planner/packing/heaviest_clique.h"
#include "planner/packing/packing.h"

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
  ConflictPacker(const ConflictInstance& instance, const ConflictIndex& index)
      : index_(index),
        pinned_(instance.pinned),
        fit_(ListedConflicts(index), instance.pinned),
        in_clique_(index.count(), false) {}

  ConflictPacking pack(std::uint32_t most_rounds);

 private:
  bool is_done() const { return best_.height <= bound_; }
  /// Places in that order, keeps the result if it is the lowest. \returns its height
  std::uint64_t attempt(const Order& order, std::span<const ArenaEnd> ends = {});
  template <class Before>
  Order sorted(Before before) const;
  std::vector<Order> greedy_orders() const;
  void place_from_both_ends();
  void raise_what_sticks_out(Order order, std::uint32_t rounds);

  const ConflictIndex& index_;
  std::span<const std::uint64_t> pinned_;
  AddressFit<ListedConflicts> fit_;
  ConflictPacking best_;
  Order best_order_;
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

std::uint64_t ConflictPacker::attempt(const Order& order, std::span<const ArenaEnd> ends) {
  const std::uint64_t height = fit_.place(order, {ends, bound_});
  if (height < best_.height || best_order_.empty()) {
    best_.height = height;
    best_.offsets = fit_.offsets();
    best_order_ = order;
  }
  return height;
}

std::vector<Order> ConflictPacker::greedy_orders() const {
  const auto life = [&](std::uint32_t b) { return index_.last(b) - index_.first(b); };
  const auto area = [&](std::uint32_t b) { return static_cast<double>(index_.size(b)) * (life(b) + 1.0); };
  std::vector<Order> orders;
  orders.push_back(sorted([&](auto a, auto b) { return life(a) > life(b); }));
  orders.push_back(
      sorted([&](auto a, auto b) { return in_clique_[a] != in_clique_[b] ? in_clique_[a] : life(a) > life(b); }));
  orders.push_back(sorted([&](auto a, auto b) { return index_.size(a) > index_.size(b); }));
  orders.push_back(sorted([&](auto a, auto b) { return area(a) > area(b); }));
  orders.push_back(sorted([&](auto a, auto b) { return index_.first(a) < index_.first(b); }));
  orders.push_back(sorted([&](auto a, auto b) { return index_.last(a) > index_.last(b); }));
  return orders;
}

/// What is live at the heaviest position stands from the bottom, longest life first; what lives on its two sides hangs
/// from the bottom or the top. Serves stacks that shrink while others grow (saved activations against gradients).
void ConflictPacker::place_from_both_ends() {
  std::uint32_t anchor = 0;
  for (const std::uint32_t b : best_.clique) anchor = std::max(anchor, index_.first(b));
  const Order by_life =
      sorted([&](auto a, auto b) { return index_.last(a) - index_.first(a) > index_.last(b) - index_.first(b); });
  std::vector<ArenaEnd> ends(index_.count());
  for (const int rule : {0, 1, 2, 3}) {
    for (std::uint32_t b = 0; b < index_.count(); ++b) {
      const bool before = index_.last(b) < anchor;
      const bool after = index_.first(b) > anchor;
      const bool leans_late = std::int64_t{index_.last(b)} - anchor > std::int64_t{anchor} - index_.first(b);
      const bool top = rule == 0 ? after : rule == 1 ? leans_late : rule == 2 ? before : !leans_late;
      ends[b] = top ? ArenaEnd::kTop : ArenaEnd::kBottom;
    }
    attempt(by_life, ends);
    if (is_done()) return;
  }
}

/// Elementary operations that improvement may cost: some tens of milliseconds, whatever the size of the instance.
constexpr std::uint64_t kMostWork = 30'000'000;

/// Buffers that end above the bound move forward in the order, the more often the further, and everything is placed
/// again.
void ConflictPacker::raise_what_sticks_out(Order order, std::uint32_t rounds) {
  std::vector<double> key(index_.count());
  for (std::size_t i = 0; i < order.size(); ++i) key[order[i]] = static_cast<double>(i);
  std::vector<std::uint32_t> raises(index_.count(), 0);
  fit_.place(order);
  const std::uint64_t n = index_.count();
  rounds = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rounds, 1 + kMostWork / (3 * (n * n / 2 + index_.edges()) + 1)));
  for (std::uint32_t round = 0; round < rounds && !is_done(); ++round) {
    for (std::uint32_t b = 0; b < index_.count(); ++b) {
      if (fit_.end_of(b) <= bound_ || fit_.is_pinned(b)) continue;
      ++raises[b];
      key[b] = key[b] * (raises[b] % 3 == 0 ? 0.25 : 0.75) - 1.0;
    }
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key[a] < key[b]; });
    attempt(order);
  }
}

ConflictPacking ConflictPacker::pack(std::uint32_t most_rounds) {
  Clique clique = find_heaviest_clique(index_);
  best_.clique = std::move(clique.members);
  best_.clique_weight = clique.weight;
  for (const std::uint32_t b : best_.clique) in_clique_[b] = true;
  bound_ = clique.weight;
  for (std::uint32_t b = 0; b < index_.count(); ++b) {
    if (fit_.is_pinned(b)) bound_ = std::max(bound_, pinned_[b] + index_.size(b));
  }
  std::vector<std::pair<std::uint64_t, Order>> tried;
  for (Order& order : greedy_orders()) {
    const std::uint64_t height = attempt(order);
    if (is_done()) return best_;
    tried.emplace_back(height, std::move(order));
  }
  place_from_both_ends();
  if (is_done()) return best_;
  std::stable_sort(tried.begin(), tried.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    raise_what_sticks_out(tried[i].second, most_rounds / 3 + 1);
    if (is_done()) break;
  }
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

ConflictPacking pack_conflicts(const ConflictInstance& instance, std::uint32_t most_rounds) {
  const ConflictIndex index(instance);
  check_pinned(instance);
  return ConflictPacker(instance, index).pack(most_rounds);
}

}  // namespace zeroplan::planner
