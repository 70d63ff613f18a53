#include "planner/packing/heaviest_clique.h"

#include <algorithm>
#include <numeric>

namespace zeroplan::planner {
namespace {

/// Positions of which a clique is grown. In plans, neighbouring positions grow the same clique, so a few spread ones
/// do.
constexpr std::size_t kMostSeeds = 24;
constexpr std::uint32_t kMostExchanges = 64;

/// A clique under change. For every buffer it knows with how many members it conflicts, so joining and exchanging are
/// cheap.
class GrowingClique {
 public:
  explicit GrowingClique(const ConflictIndex& index)
      : index_(index), hits_(index.count(), 0), hit_ids_(index.count(), 0), is_member_(index.count(), 0) {}

  void clear() {
    while (!members_.empty()) remove(members_.back());
  }
  bool can_join(std::uint32_t buffer) const { return is_member_[buffer] == 0 && hits_[buffer] == members_.size(); }
  void add(std::uint32_t buffer) {
    members_.push_back(buffer);
    is_member_[buffer] = 1;
    ids_ += buffer;
    weight_ += index_.size(buffer);
    for (const std::uint32_t other : index_.neighbours(buffer)) {
      ++hits_[other];
      hit_ids_[other] += buffer;
    }
  }
  void remove(std::uint32_t buffer) {
    members_.erase(std::find(members_.begin(), members_.end(), buffer));
    is_member_[buffer] = 0;
    ids_ -= buffer;
    weight_ -= index_.size(buffer);
    for (const std::uint32_t other : index_.neighbours(buffer)) {
      --hits_[other];
      hit_ids_[other] -= buffer;
    }
  }
  /// Joins whatever conflicts with all members, in the given order.
  void join_all(std::span<const std::uint32_t> order) {
    for (const std::uint32_t buffer : order) {
      if (can_join(buffer)) add(buffer);
    }
  }
  /// Replaces one member by buffers that conflict with all others, if they are heavier. \returns whether it did
  bool exchange(std::span<const std::uint32_t> heaviest_first);

  const std::vector<std::uint32_t>& members() const { return members_; }
  std::uint64_t weight() const { return weight_; }

 private:
  const ConflictIndex& index_;
  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> hits_;     ///< members that a buffer conflicts with
  std::vector<std::uint64_t> hit_ids_;  ///< the sum of their numbers: names the one that is missing
  std::vector<std::uint8_t> is_member_;
  std::uint64_t ids_ = 0;
  std::uint64_t weight_ = 0;
};

bool GrowingClique::exchange(std::span<const std::uint32_t> heaviest_first) {
  // Candidates by the member they would replace, then heaviest first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> candidates;
  for (const std::uint32_t buffer : heaviest_first) {
    if (is_member_[buffer] != 0 || hits_[buffer] + 1 != members_.size() || index_.size(buffer) == 0) continue;
    candidates.emplace_back(static_cast<std::uint32_t>(ids_ - hit_ids_[buffer]), buffer);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  for (std::size_t begin = 0; begin < candidates.size();) {
    const std::uint32_t member = candidates[begin].first;
    std::size_t end = begin;
    std::uint64_t most = 0;
    for (; end < candidates.size() && candidates[end].first == member; ++end)
      most += index_.size(candidates[end].second);
    if (most > index_.size(member)) {
      const std::uint64_t before = weight_;
      const std::size_t rest = members_.size() - 1;
      remove(member);
      for (std::size_t c = begin; c < end; ++c) {
        if (can_join(candidates[c].second)) add(candidates[c].second);
      }
      if (weight_ > before) return true;
      while (members_.size() > rest) remove(members_.back());
      add(member);
    }
    begin = end;
  }
  return false;
}

/// A position where a life begins and the next event ends one, with all that is live there.
struct Seed {
  std::uint64_t weight = 0;
  std::uint32_t position = 0;
};

std::vector<Seed> heaviest_positions(const ConflictIndex& index) {
  std::vector<Stay> by_first(index.stays().begin(), index.stays().end());
  std::stable_sort(by_first.begin(), by_first.end(), [](const Stay& a, const Stay& b) { return a.first < b.first; });
  std::vector<Stay> by_last = by_first;
  std::stable_sort(by_last.begin(), by_last.end(), [](const Stay& a, const Stay& b) { return a.last < b.last; });
  std::vector<Seed> seeds;
  std::uint64_t live = 0;
  for (std::size_t begun = 0, ended = 0; begun < by_first.size();) {
    const std::uint32_t position = by_first[begun].first;
    for (; by_last[ended].last < position; ++ended) live -= index.size(by_last[ended].buffer);
    for (; begun < by_first.size() && by_first[begun].first == position; ++begun)
      live += index.size(by_first[begun].buffer);
    const bool is_peak = begun == by_first.size() || by_last[ended].last < by_first[begun].first;
    if (is_peak) seeds.push_back({live, position});
  }
  std::stable_sort(seeds.begin(), seeds.end(), [](const Seed& x, const Seed& y) { return x.weight > y.weight; });
  if (seeds.size() > kMostSeeds) seeds.resize(kMostSeeds);
  return seeds;
}

/// What is live at a position, largest first.
std::vector<std::uint32_t> live_at(const ConflictIndex& index, std::uint32_t position) {
  std::vector<std::uint32_t> live;
  for (const Stay& stay : index.stays()) {
    if (stay.first <= position && position <= stay.last && index.size(stay.buffer) != 0) live.push_back(stay.buffer);
  }
  std::sort(live.begin(), live.end(),
            [&](auto a, auto b) { return index.size(a) != index.size(b) ? index.size(a) > index.size(b) : a < b; });
  return live;
}

}  // namespace

SeatedClique find_heaviest_clique(const ConflictIndex& index) {
  std::vector<std::uint32_t> by_size(index.count());
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::stable_sort(by_size.begin(), by_size.end(), [&](auto a, auto b) { return index.size(a) > index.size(b); });
  std::erase_if(by_size, [&](std::uint32_t b) { return index.size(b) == 0; });
  SeatedClique best;
  GrowingClique clique(index);
  for (const Seed& seed : heaviest_positions(index)) {
    clique.clear();
    clique.join_all(live_at(index, seed.position));
    clique.join_all(by_size);
    for (std::uint32_t i = 0; i < kMostExchanges && clique.exchange(by_size); ++i) clique.join_all(by_size);
    if (clique.weight() > best.clique.weight) best = {{clique.members(), clique.weight()}, seed.position};
  }
  std::sort(best.clique.members.begin(), best.clique.members.end());
  return best;
}

Clique heaviest_clique(const ConflictInstance& instance) {
  return find_heaviest_clique(ConflictIndex(instance)).clique;
}

}  // namespace zeroplan::planner
