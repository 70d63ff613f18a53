#include "planner/packing/canonical_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/core/error.h"

namespace zeroplan::planner {
namespace {

constexpr std::uint32_t kMostDepth = 8'000;
constexpr std::size_t kFailedStates = std::size_t{1} << 18;
constexpr std::uint64_t kFirstNodeLimit = 3'000;
constexpr double kNodeLimitGrowth = 1.05;
constexpr std::uint64_t kNodesPerClockReading = 256;

/// A bijection of 64-bit words with good avalanche: the finaliser of splitmix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

CanonicalSearch::CanonicalSearch(const SearchProblem& problem, Deadline deadline, std::uint64_t seed, SearchRace* race)
    : problem_(problem), deadline_(deadline), race_(race), random_state_(mix(seed + 0x9e3779b97f4a7c15u)) {
  const std::size_t n = problem.items.size();
  const std::size_t sections = problem.sections;
  offsets_.assign(n, 0);
  lowest_.assign(n, 0);
  is_placed_.assign(n, 0);
  floors_.assign(sections, 0);
  remaining_.assign(sections, 0);
  crossing_.assign(sections, 0);
  row_live_.assign(sections, 0);
  is_queued_.assign(sections, 0);
  unplaced_keys_.assign(sections, Key{0, 0});
  is_touched_.assign(sections, 0);
  weights_.assign(sections, 1.0);
  preference_.assign(n, 0.0);
  failed_.assign(kFailedStates, Key{0, 0});
  std::size_t places = 0;
  for (const SearchProblem::Item& item : problem.items) {
    ZP_CHECK(item.first < item.last && item.last <= sections && item.size > 0);
    place_in_row_begin_.push_back(static_cast<std::uint32_t>(places));
    places += item.last - item.first;
    for (std::uint32_t s = item.first; s < item.last; ++s) ++row_live_[s];
  }
  ZP_CHECK(places < UINT32_MAX);
  std::uint32_t begin = 0;
  for (std::uint32_t s = 0; s < sections; ++s) {
    row_begin_.push_back(begin);
    begin += row_live_[s];
    row_live_[s] = 0;
  }
  members_.resize(places);
  place_in_row_.resize(places);
  for (std::uint32_t i = 0; i < n; ++i) {
    const SearchProblem::Item& item = problem.items[i];
    for (std::uint32_t s = item.first; s < item.last; ++s) {
      place_in_row_[place_in_row_begin_[i] + s - item.first] = row_live_[s];
      members_[row_begin_[s] + row_live_[s]++] = i;
      remaining_[s] += item.size;
      if (s + 1 < item.last) ++crossing_[s];
    }
    item_keys_.push_back({mix(2 * i + 1), mix((std::uint64_t{i} << 32) + 77)});
    unplaced_keys_[item.first].low += item_keys_[i].low;
    unplaced_keys_[item.first].high += item_keys_[i].high;
  }
}

std::span<const std::uint32_t> CanonicalSearch::active(std::uint32_t section) const {
  return {members_.data() + row_begin_[section], row_live_[section]};
}

void CanonicalSearch::mark(std::uint32_t section) {
  if (is_queued_[section] != 0) return;
  is_queued_[section] = 1;
  queue_.push_back(section);
}

/// Takes an item out of the rows of its sections, or back into them in the reverse order.
void CanonicalSearch::link(std::uint32_t item, bool unplaced) {
  const SearchProblem::Item& it = problem_.items[item];
  std::uint32_t* places = place_in_row_.data() + place_in_row_begin_[item];
  Key& key = unplaced_keys_[it.first];
  key.low += unplaced ? item_keys_[item].low : 0 - item_keys_[item].low;
  key.high += unplaced ? item_keys_[item].high : 0 - item_keys_[item].high;
  for (std::uint32_t s = it.first; s < it.last; ++s, ++places) {
    std::uint32_t* row = members_.data() + row_begin_[s];
    if (unplaced) {
      ++row_live_[s];  // it still stands right behind the unplaced ones
      remaining_[s] += it.size;
      if (s + 1 < it.last) ++crossing_[s];
      continue;
    }
    const std::uint32_t back = --row_live_[s];
    const std::uint32_t other = row[back];
    place_in_row_[place_in_row_begin_[other] + s - problem_.items[other].first] = *places;
    row[*places] = other;
    row[back] = item;
    *places = back;
    remaining_[s] -= it.size;
    if (s + 1 < it.last) --crossing_[s];
  }
}

bool CanonicalSearch::raise_floor(std::uint32_t section, std::int64_t floor) {
  trail_.push_back({Change::kFloor, section, floors_[section]});
  floors_[section] = floor;
  bool fits = row_live_[section] == 0 || floor + remaining_[section] <= problem_.capacity;
  for (const std::uint32_t i : active(section)) {
    if (lowest_[i] >= floor) continue;
    trail_.push_back({Change::kLowest, i, lowest_[i]});
    lowest_[i] = floor;
    const SearchProblem::Item& item = problem_.items[i];
    fits = fits && floor + item.size <= problem_.capacity;
    for (std::uint32_t s = item.first; s < item.last; ++s) mark(s);
  }
  mark(section);
  if (!fits) weights_[section] += 1;
  return fits;
}

bool CanonicalSearch::place(std::uint32_t item) {
  const SearchProblem::Item& it = problem_.items[item];
  offsets_[item] = lowest_[item];
  is_placed_[item] = 1;
  link(item, false);
  trail_.push_back({Change::kPlaced, item, 0});
  for (std::uint32_t s = it.first; s < it.last; ++s) {
    if (!raise_floor(s, offsets_[item] + it.size)) return false;
  }
  return true;
}

/// What begins late in a section must still end in time: for every level, the level and all that cannot begin below it.
/// A level that fails lies above the floor by more than the section has to spare.
bool CanonicalSearch::fits_in_time(std::uint32_t section) {
  const std::int64_t level_to_spare = problem_.capacity - remaining_[section];
  scratch_.clear();
  std::int64_t late = 0;
  std::int64_t latest = 0;
  for (const std::uint32_t i : active(section)) {
    if (lowest_[i] <= level_to_spare) continue;
    scratch_.emplace_back(lowest_[i], problem_.items[i].size);
    late += problem_.items[i].size;
    latest = std::max(latest, lowest_[i]);
  }
  if (latest + late <= problem_.capacity) return true;
  std::sort(scratch_.begin(), scratch_.end());
  for (const auto& [level, size] : scratch_) {
    if (level + late > problem_.capacity) return false;
    late -= size;
  }
  return true;
}

bool CanonicalSearch::propagate() {
  bool fits = true;
  while (!queue_.empty()) {
    const std::uint32_t s = queue_.back();
    queue_.pop_back();
    is_queued_[s] = 0;
    if (is_touched_[s] == 0) {
      is_touched_[s] = 1;
      touched_.push_back(s);
    }
    if (!fits || row_live_[s] == 0) continue;
    std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
    for (const std::uint32_t i : active(s)) lowest = std::min(lowest, lowest_[i]);
    if (lowest > floors_[s]) fits = raise_floor(s, lowest);
  }
  for (const std::uint32_t s : touched_) {
    is_touched_[s] = 0;
    if (!fits || row_live_[s] == 0 || fits_in_time(s)) continue;
    weights_[s] += 1;
    fits = false;
  }
  touched_.clear();
  return fits;
}

void CanonicalSearch::undo_to(std::size_t mark) {
  while (trail_.size() > mark) {
    const Undo undo = trail_.back();
    trail_.pop_back();
    switch (undo.what) {
      case Change::kFloor:
        floors_[undo.index] = undo.before;
        break;
      case Change::kLowest:
        lowest_[undo.index] = undo.before;
        break;
      case Change::kPlaced:
        is_placed_[undo.index] = 0;
        link(undo.index, true);
        break;
    }
  }
}

/// No unplaced item crosses the ends of a range, so each belongs to the section in which it begins.
CanonicalSearch::Key CanonicalSearch::key_of(Range range) const {
  Key key{1, 1};
  for (std::uint32_t s = range.begin; s < range.end; ++s) {
    if (row_live_[s] == 0) continue;
    key.low += unplaced_keys_[s].low + mix((static_cast<std::uint64_t>(floors_[s]) << 24) + s);
    key.high += unplaced_keys_[s].high +
                mix((static_cast<std::uint64_t>(floors_[s]) ^ 0x9e3779b97f4a7c15u) * (2 * std::uint64_t{s} + 1));
  }
  return key;
}

/// The section with the fewest answers, among those that failed often before.
std::uint32_t CanonicalSearch::choose_section(Range range) const {
  std::uint32_t best = range.begin;
  double best_score = std::numeric_limits<double>::infinity();
  for (std::uint32_t begin = range.begin; begin < range.end;) {
    std::uint32_t end = begin + 1;
    const std::int64_t floor = floors_[begin];
    while (end < range.end && floors_[end] == floor) ++end;
    const bool is_valley =
        (begin == range.begin || floors_[begin - 1] > floor) && (end == range.end || floors_[end] > floor);
    for (std::uint32_t s = begin; is_valley && s < end; ++s) {
      std::uint32_t answers = floor + remaining_[s] < problem_.capacity ? 1 : 0;
      for (const std::uint32_t i : active(s)) answers += lowest_[i] == floor ? 1 : 0;
      const double score = answers <= 1 ? 0 : answers / weights_[s];
      if (score < best_score) {
        best_score = score;
        best = s;
      }
    }
    begin = end;
  }
  return best;
}

/// If nothing stands on the floor over this section, what is lowest there rests on a buffer beside it that is still to
/// be placed, unless something higher holds it up already.
std::int64_t CanonicalSearch::level_if_empty(std::uint32_t section) const {
  std::int64_t level = std::numeric_limits<std::int64_t>::max();
  for (const std::uint32_t i : active(section)) {
    if (lowest_[i] > floors_[section]) {
      level = std::min(level, lowest_[i]);
      continue;
    }
    const SearchProblem::Item& item = problem_.items[i];
    for (std::uint32_t s = item.first; s < item.last; ++s) {
      for (const std::uint32_t j : active(s)) {
        const SearchProblem::Item& other = problem_.items[j];
        if (other.first <= section && section < other.last) continue;
        level = std::min(level, lowest_[j] + other.size);
      }
    }
  }
  return level;
}

void CanonicalSearch::order(std::vector<std::uint32_t>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [&](std::uint32_t a, std::uint32_t b) {
    return preference_[a] != preference_[b] ? preference_[a] > preference_[b] : a < b;
  });
  // Of buffers that are alike, only the first is tried.
  const auto alike = [&](std::uint32_t a, std::uint32_t b) {
    const SearchProblem::Item& x = problem_.items[a];
    const SearchProblem::Item& y = problem_.items[b];
    return x.first == y.first && x.last == y.last && x.size == y.size;
  };
  std::vector<std::uint32_t> kept;
  for (const std::uint32_t c : candidates) {
    const bool again = std::any_of(kept.begin(), kept.end(), [&](std::uint32_t k) { return alike(k, c); });
    if (!again) kept.push_back(c);
  }
  candidates.swap(kept);
}

CanonicalSearch::Branching CanonicalSearch::choose(Range range) {
  Branching result;
  result.section = choose_section(range);
  for (const std::uint32_t i : active(result.section)) {
    if (lowest_[i] == floors_[result.section]) result.candidates.push_back(i);
  }
  order(result.candidates);
  result.level_if_empty = level_if_empty(result.section);
  return result;
}

CanonicalSearch::Answer CanonicalSearch::branch(Range range, std::uint32_t depth) {
  if (++nodes_ >= node_limit_ || depth >= kMostDepth) return Answer::kStop;
  if (nodes_ % kNodesPerClockReading == 0 && is_over()) return Answer::kStop;
  const Key key = key_of(range);
  Key& slot = failed_[key.low % kFailedStates];
  if (slot == key) return Answer::kNo;
  const Branching branching = choose(range);
  const std::size_t before = trail_.size();
  for (const std::uint32_t candidate : branching.candidates) {
    const bool fits = place(candidate);
    if (propagate() && fits) {
      const Answer answer = solve(range, depth + 1);
      if (answer != Answer::kNo) return answer;
    }
    undo_to(before);
  }
  const std::uint32_t s = branching.section;
  if (branching.level_if_empty <= problem_.capacity - remaining_[s]) {
    const bool fits = raise_floor(s, branching.level_if_empty);
    if (propagate() && fits) {
      const Answer answer = solve(range, depth + 1);
      if (answer != Answer::kNo) return answer;
    }
    undo_to(before);
  }
  slot = key;
  return Answer::kNo;
}

CanonicalSearch::Answer CanonicalSearch::solve(Range range, std::uint32_t depth) {
  std::uint32_t begin = range.begin;
  while (begin < range.end) {
    if (row_live_[begin] == 0) {
      ++begin;
      continue;
    }
    std::uint32_t end = begin + 1;
    while (end < range.end && crossing_[end - 1] > 0) ++end;
    const Answer answer = branch({begin, end}, depth);
    if (answer != Answer::kYes) return answer;
    begin = end;
  }
  return Answer::kYes;
}

std::uint64_t CanonicalSearch::random() {
  random_state_ += 0x9e3779b97f4a7c15u;
  return mix(random_state_);
}

/// Wide first, large first, or both, with more chance in later attempts.
void CanonicalSearch::restart_with(std::uint32_t attempt) {
  constexpr double kWeights[][2] = {{1, 1}, {1, 0.2}, {0.2, 1}, {1, 2}};
  const auto& [of_width, of_size] = kWeights[attempt % 4];
  const double chance = attempt < 4 ? 0.0 : 0.5 + 0.5 * (attempt % 3);
  for (std::size_t i = 0; i < preference_.size(); ++i) {
    const SearchProblem::Item& item = problem_.items[i];
    const double noise = static_cast<double>(random() >> 11) * 0x1p-53;
    preference_[i] = of_width * std::log(item.last - item.first) + of_size * std::log(static_cast<double>(item.size)) +
                     chance * noise;
  }
}

bool CanonicalSearch::is_over() const {
  return (race_ != nullptr && race_->is_won_before(nodes_)) || std::chrono::steady_clock::now() >= deadline_;
}

SearchOutcome CanonicalSearch::run() {
  const SearchOutcome outcome = restart_until_known();
  if (outcome != SearchOutcome::kLimit && race_ != nullptr) race_->finish(nodes_);
  return outcome;
}

SearchOutcome CanonicalSearch::restart_until_known() {
  const Range all{0, problem_.sections};
  for (std::uint32_t s = 0; s < problem_.sections; ++s) {
    if (remaining_[s] > problem_.capacity) return SearchOutcome::kInfeasible;
  }
  double limit = kFirstNodeLimit;
  for (std::uint32_t attempt = 0; !is_over(); ++attempt) {
    restart_with(attempt);
    node_limit_ = nodes_ + static_cast<std::uint64_t>(limit);
    limit *= kNodeLimitGrowth;
    const Answer answer = solve(all, 0);
    if (answer == Answer::kYes) return SearchOutcome::kFound;
    if (answer == Answer::kNo) return SearchOutcome::kInfeasible;
    undo_to(0);
  }
  return SearchOutcome::kLimit;
}

}  // namespace zeroplan::planner
