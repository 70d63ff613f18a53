#include "planner/conflict_packing.h"

#include <algorithm>
#include <numeric>

#include "models/core/units.h"

namespace zeroplan::planner {
namespace {

/// Whether two buffers conflict, in constant time.
class ConflictMatrix {
 public:
  explicit ConflictMatrix(const ConflictInstance& instance) : n_(instance.sizes.size()), bits_(n_ * n_, false) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (const std::uint32_t j : instance.conflicts[i]) bits_[i * n_ + j] = true;
    }
  }
  bool operator()(std::size_t i, std::size_t j) const { return bits_[i * n_ + j]; }

 private:
  std::size_t n_;
  std::vector<bool> bits_;
};

struct Placed {
  std::uint64_t begin;
  std::uint64_t end;
};

/// First fit at the lowest address, buffers in the given order.
class FirstFit {
 public:
  explicit FirstFit(const ConflictInstance& instance) : instance_(instance), offsets_(instance.sizes.size()) {}

  /// \returns the height
  std::uint64_t place(const std::vector<std::uint32_t>& order) {
    is_placed_.assign(instance_.sizes.size(), false);
    std::uint64_t height = 0;
    for (const std::uint32_t b : order) {
      offsets_[b] = lowest_gap(b);
      is_placed_[b] = true;
      height = std::max(height, detail::checked_add(offsets_[b], instance_.sizes[b]));
    }
    return height;
  }

  const std::vector<std::uint64_t>& offsets() const { return offsets_; }

 private:
  std::uint64_t lowest_gap(std::uint32_t b) {
    neighbours_.clear();
    for (const std::uint32_t other : instance_.conflicts[b]) {
      if (is_placed_[other]) neighbours_.push_back({offsets_[other], offsets_[other] + instance_.sizes[other]});
    }
    std::sort(neighbours_.begin(), neighbours_.end(), [](const Placed& x, const Placed& y) { return x.begin < y.begin; });
    std::uint64_t at = 0;
    for (const Placed& p : neighbours_) {
      if (p.begin >= at + instance_.sizes[b]) break;
      at = std::max(at, p.end);
    }
    return at;
  }

  const ConflictInstance& instance_;
  std::vector<std::uint64_t> offsets_;
  std::vector<bool> is_placed_;
  std::vector<Placed> neighbours_;
};

std::vector<std::uint32_t> identity(std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::vector<std::vector<std::uint32_t>> greedy_orders(const ConflictInstance& instance) {
  const auto life = [&](std::uint32_t i) { return instance.last_position[i] - instance.first_position[i]; };
  const auto& size = instance.sizes;
  std::vector<std::vector<std::uint32_t>> orders;
  const auto add = [&](auto before) {
    orders.push_back(identity(size.size()));
    std::stable_sort(orders.back().begin(), orders.back().end(), before);
  };
  add([&](auto a, auto b) { return life(a) > life(b); });
  add([&](auto a, auto b) { return size[a] > size[b]; });
  add([&](auto a, auto b) {
    return static_cast<double>(size[a]) * (life(a) + 1) > static_cast<double>(size[b]) * (life(b) + 1);
  });
  add([&](auto a, auto b) { return instance.first_position[a] < instance.first_position[b]; });
  add([&](auto a, auto b) { return instance.last_position[a] > instance.last_position[b]; });
  return orders;
}

/// For each buffer: it and those that began before it, heaviest first, as long as all conflict with one another.
void find_clique(const ConflictInstance& instance, const ConflictMatrix& conflict, ConflictPacking& result) {
  std::vector<std::uint32_t> candidates;
  std::vector<std::uint32_t> clique;
  for (std::uint32_t last = 0; last < instance.sizes.size(); ++last) {
    candidates.clear();
    std::uint64_t most = instance.sizes[last];
    for (const std::uint32_t other : instance.conflicts[last]) {
      if (instance.first_position[other] > instance.first_position[last]) continue;
      candidates.push_back(other);
      most += instance.sizes[other];
    }
    if (most <= result.clique_weight) continue;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](auto a, auto b) { return instance.sizes[a] > instance.sizes[b]; });
    clique.assign(1, last);
    std::uint64_t weight = instance.sizes[last];
    for (const std::uint32_t c : candidates) {
      if (!std::all_of(clique.begin() + 1, clique.end(), [&](std::uint32_t member) { return conflict(c, member); })) continue;
      clique.push_back(c);
      weight += instance.sizes[c];
    }
    if (weight > result.clique_weight) {
      result.clique_weight = weight;
      result.clique = clique;
    }
  }
}

/// The buffers that reach the top and, below each, the chain that carries it.
std::vector<std::uint32_t> top_chain(const ConflictInstance& instance, const std::vector<std::uint64_t>& offsets,
                                     std::uint64_t height) {
  std::vector<std::uint32_t> chain;
  for (std::uint32_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] + instance.sizes[i] == height) chain.push_back(i);
  }
  return chain;
}

/// Moves the buffers of the top in front of everything else of their neighbourhood, and packs again.
void improve(const ConflictInstance& instance, std::vector<std::uint32_t> order, std::uint32_t rounds, FirstFit& fit,
             ConflictPacking& best) {
  std::uint64_t height = fit.place(order);
  std::vector<std::uint64_t> rank(instance.sizes.size());
  for (std::uint32_t round = 0; round < rounds && best.height > best.clique_weight; ++round) {
    const auto chain = top_chain(instance, fit.offsets(), height);
    // A buffer at the top goes in front of the last of its neighbours that were placed before it, further each round.
    for (const std::uint32_t b : chain) {
      const auto at = std::find(order.begin(), order.end(), b);
      const auto position = static_cast<std::size_t>(at - order.begin());
      const std::size_t back = std::min(position, position / 2 + (round % 3) * position / 8);
      order.erase(at);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(back), b);
    }
    height = fit.place(order);
    if (height < best.height) {
      best.height = height;
      best.offsets = fit.offsets();
    }
  }
}

}  // namespace

ConflictPacking pack_conflicts(const ConflictInstance& instance, std::uint32_t most_rounds) {
  ConflictPacking result;
  result.offsets.assign(instance.sizes.size(), 0);
  if (instance.sizes.empty()) return result;
  const ConflictMatrix conflict(instance);
  find_clique(instance, conflict, result);
  FirstFit fit(instance);
  result.height = UINT64_MAX;
  std::vector<std::uint32_t> best_order;
  for (auto& order : greedy_orders(instance)) {
    const std::uint64_t height = fit.place(order);
    if (height < result.height) {
      result.height = height;
      result.offsets = fit.offsets();
      best_order = std::move(order);
    }
    if (result.height == result.clique_weight) return result;
  }
  improve(instance, best_order, most_rounds, fit, result);
  return result;
}

}  // namespace zeroplan::planner
