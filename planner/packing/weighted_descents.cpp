#include "planner/packing/weighted_descents.h"

#include <algorithm>

namespace zeroplan::planner {
namespace {

/// The capacity in units of weights.
constexpr std::int64_t kUnits = 1 << 20;
/// A buffer's own size counts so much against the load of its heaviest clique.
constexpr std::int64_t kSizeCounts = 5;
/// Descents of one style in the first turn; later turns are twice as long each.
constexpr std::uint32_t kFirstTurn = 4;
/// Choices for one placement that may fail before the one before it is taken back.
constexpr std::size_t kMostRefused = 2;

}  // namespace

WeightedDescents::WeightedDescents(const ConflictIndex& index, std::span<const SeatedClique> cover)
    : index_(index), cover_(cover), cliques_of_(index.count()), heaviest_of_(index.count(), 0) {
  for (std::uint32_t c = 0; c < cover_.size(); ++c) {
    for (const std::uint32_t b : cover_[c].clique.members) {
      cliques_of_[b].push_back(c);
      heaviest_of_[b] = std::max(heaviest_of_[b], cover_[c].clique.weight);
    }
  }
}

std::optional<std::vector<std::uint64_t>> WeightedDescents::find(std::uint64_t capacity, std::uint64_t most_work) {
  capacity_ = std::max<std::uint64_t>(capacity, 1);
  work_ = 0;
  std::vector<Style> styles = {
      {.latest_first = false, .reluctance = 30, .lesson = kUnits / 400, .most_failures = 100},
      {.latest_first = true, .reluctance = 30, .lesson = kUnits / 400, .most_failures = 20},
      {.latest_first = true, .reluctance = 30, .lesson = kUnits / 100, .most_failures = 100},
  };
  for (Style& style : styles) {
    style.weights.resize(index_.count());
    for (std::uint32_t b = 0; b < index_.count(); ++b)
      style.weights[b] = in_units(heaviest_of_[b]) + kSizeCounts * in_units(index_.size(b));
  }
  for (std::uint32_t turn = kFirstTurn; work_ < most_work; turn *= 2) {
    for (Style& style : styles) {
      for (std::uint32_t i = 0; i < turn && work_ < most_work; ++i) {
        if (descend(style)) return lowest_;
      }
    }
  }
  return std::nullopt;
}

std::int64_t WeightedDescents::in_units(std::uint64_t bytes) const {
  return static_cast<std::int64_t>(static_cast<double>(bytes) / static_cast<double>(capacity_) *
                                   static_cast<double>(kUnits));
}

void WeightedDescents::start() {
  floor_ = 0;
  waiting_.clear();
  is_placed_.assign(index_.count(), 0);
  lowest_.assign(index_.count(), 0);
  for (std::uint32_t b = 0; b < index_.count(); ++b) {
    if (index_.size(b) == 0) {
      is_placed_[b] = 1;
    } else {
      waiting_.push_back(b);
    }
  }
  placements_.clear();
  raised_.clear();
  refused_.clear();
  unplaced_.clear();
  witness_.clear();
  for (const SeatedClique& seated : cover_) {
    unplaced_.push_back(seated.clique.weight);
    witness_.push_back(seated.clique.members.front());
  }
}

bool WeightedDescents::descend(Style& style) {
  start();
  work_ += 2 * index_.count() + cover_.size();
  for (std::uint32_t failures = 0; !waiting_.empty();) {
    const auto chosen = choose(style);
    if (chosen && advance(style, *chosen)) continue;
    if (chosen && ++failures == style.most_failures) return false;
    if (!retreat()) return false;
  }
  return true;
}

bool WeightedDescents::advance(Style& style, std::size_t chosen) {
  const std::uint32_t buffer = waiting_[chosen];
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(chosen));
  placements_.push_back({buffer, floor_, lowest_[buffer], raised_.size(), std::move(refused_)});
  refused_.clear();
  place(buffer);
  if (lowest_[buffer] + index_.size(buffer) > capacity_) {
    style.weights[buffer] += 2 * style.lesson;
    return false;
  }
  const auto failed = failed_clique();
  if (failed) learn(style, *failed);
  return !failed;
}

bool WeightedDescents::retreat() {
  while (!placements_.empty()) {
    Placement last = std::move(placements_.back());
    placements_.pop_back();
    take_back(last);
    if (last.refused.size() == kMostRefused) continue;
    refused_ = std::move(last.refused);
    refused_.push_back(last.buffer);
    return true;
  }
  return false;
}

void WeightedDescents::take_back(const Placement& placement) {
  work_ += waiting_.size() / 4 + cliques_of_[placement.buffer].size() + raised_.size() - placement.raised;
  for (; raised_.size() > placement.raised; raised_.pop_back()) lowest_[raised_.back().buffer] = raised_.back().lowest;
  floor_ = placement.floor;
  lowest_[placement.buffer] = placement.lowest;
  is_placed_[placement.buffer] = 0;
  for (const std::uint32_t c : cliques_of_[placement.buffer]) unplaced_[c] += index_.size(placement.buffer);
  waiting_.insert(std::lower_bound(waiting_.begin(), waiting_.end(), placement.buffer), placement.buffer);
}

std::optional<std::size_t> WeightedDescents::choose(const Style& style) const {
  // Nothing goes so high that another buffer would fit below it.
  std::uint64_t limit = UINT64_MAX;
  for (const std::uint32_t b : waiting_) limit = std::min(limit, std::max(lowest_[b], floor_) + index_.size(b));
  std::optional<std::size_t> best;
  std::int64_t best_score = INT64_MIN;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const std::uint32_t b = waiting_[i];
    const std::uint64_t at = std::max(lowest_[b], floor_);
    if (at >= limit) continue;
    const std::int64_t score = style.weights[b] - (at == floor_ ? 0 : style.reluctance * in_units(at - floor_));
    const bool is_better = score > best_score || (score == best_score && style.latest_first);
    if (!is_better || std::find(refused_.begin(), refused_.end(), b) != refused_.end()) continue;
    best = i;
    best_score = score;
  }
  return best;
}

void WeightedDescents::place(std::uint32_t buffer) {
  floor_ = lowest_[buffer] = std::max(lowest_[buffer], floor_);
  is_placed_[buffer] = 1;
  const std::uint64_t end = floor_ + index_.size(buffer);
  for (const std::uint32_t other : index_.neighbours(buffer)) {
    if (is_placed_[other] != 0 || lowest_[other] >= end) continue;
    raised_.push_back({other, lowest_[other]});
    lowest_[other] = end;
  }
  for (const std::uint32_t c : cliques_of_[buffer]) unplaced_[c] -= index_.size(buffer);
  work_ += 2 * waiting_.size() + index_.neighbours(buffer).size() + cliques_of_[buffer].size() + cover_.size();
}

std::optional<std::size_t> WeightedDescents::failed_clique() {
  for (std::size_t c = 0; c < cover_.size(); ++c) {
    if (unplaced_[c] == 0) continue;
    const std::uint64_t highest = unplaced_[c] > capacity_ ? 0 : capacity_ - unplaced_[c];
    if (unplaced_[c] > capacity_ || floor_ > highest) return c;
    const auto may_be_next = [&](std::uint32_t b) { return is_placed_[b] == 0 && lowest_[b] <= highest; };
    if (may_be_next(witness_[c])) continue;
    const auto& members = cover_[c].clique.members;
    const auto found = std::find_if(members.begin(), members.end(), may_be_next);
    work_ += static_cast<std::uint64_t>(found - members.begin());
    if (found == members.end()) return c;
    witness_[c] = *found;
  }
  return std::nullopt;
}

void WeightedDescents::learn(Style& style, std::size_t clique) {
  for (const std::uint32_t b : cover_[clique].clique.members) {
    if (is_placed_[b] == 0)
      style.weights[b] +=
          style.lesson + static_cast<std::int64_t>(style.random() % static_cast<std::uint64_t>(style.lesson));
  }
}

}  // namespace zeroplan::planner
