#include <algorithm>
#include <cmath>
#include <future>
#include <numeric>

#include "models/core/units.h"
#include "planner/packing/address_fit.h"
#include "planner/packing/canonical_search.h"
#include "planner/packing/packing.h"
#include "planner/packing/sections.h"

namespace zeroplan::planner {
namespace {

using Clock = std::chrono::steady_clock;
using Order = std::vector<std::uint32_t>;

/// Beyond this many places of buffers in sections, the exact search is not tried.
constexpr std::uint64_t kMostPlaces = 20'000'000;
constexpr std::uint32_t kExchangeRounds = 60;
constexpr double kLongestTimeSeconds = 1e6;

/// Buffers with their sizes rounded up to the alignment.
class IntervalConflicts {
 public:
  explicit IntervalConflicts(std::span<const IntervalBuffer> buffers) : buffers_(buffers) {}
  std::uint32_t count() const { return static_cast<std::uint32_t>(buffers_.size()); }
  std::uint64_t size(std::uint32_t buffer) const { return buffers_[buffer].size; }
  void select(std::uint32_t buffer) { selected_ = buffers_[buffer]; }
  bool conflicts(std::uint32_t other) const {
    return buffers_[other].first < selected_.last && selected_.first < buffers_[other].last;
  }

 private:
  std::span<const IntervalBuffer> buffers_;
  IntervalBuffer selected_;
};

struct RaceResult {
  SearchOutcome outcome = SearchOutcome::kLimit;
  std::vector<std::int64_t> offsets;
};

/// Two searches with different seeds at once. What one of them knows counts; of two answers the one after fewer nodes.
RaceResult race(const SearchProblem& problem, Clock::time_point deadline) {
  SearchRace race;
  CanonicalSearch first(problem, deadline, 0, &race);
  CanonicalSearch second(problem, deadline, 1, &race);
  std::future<SearchOutcome> other = std::async(std::launch::async, [&second] { return second.run(); });
  const SearchOutcome of_first = first.run();
  const SearchOutcome of_second = other.get();
  const bool first_counts =
      of_second == SearchOutcome::kLimit || (of_first != SearchOutcome::kLimit && first.nodes() <= second.nodes());
  return first_counts ? RaceResult{of_first, first.offsets()} : RaceResult{of_second, second.offsets()};
}

class IntervalPacker {
 public:
  IntervalPacker(std::span<const IntervalBuffer> buffers, const IntervalOptions& options);

  IntervalPacking pack();

 private:
  void find_bounds();
  bool is_enough() const { return best_.height <= (options_.capacity ? *options_.capacity : best_.lower_bound); }
  void keep(const std::vector<std::uint64_t>& offsets);
  void pack_greedily();
  SearchOutcome search(std::uint64_t capacity);
  void search_lowest();
  std::uint64_t end_of(std::size_t i, std::uint64_t offset) const {
    return originals_[i].size == 0 ? 0 : offset + originals_[i].size;
  }

  std::span<const IntervalBuffer> originals_;
  const IntervalOptions& options_;
  Clock::time_point deadline_;
  std::vector<IntervalBuffer> rounded_;
  bool is_rounded_ = false;  ///< some size is no multiple of the alignment
  Sections sections_;
  std::uint64_t unit_ = 1;  ///< divides every rounded size
  IntervalPacking best_;
};

IntervalPacker::IntervalPacker(std::span<const IntervalBuffer> buffers, const IntervalOptions& options)
    : originals_(buffers), options_(options) {
  const double limit_s = options.time_limit.count();
  if (!(limit_s >= 0)) throw Error(ErrorCode::kInvalidInput, "the time limit of a packing is negative or no number");
  if (options.alignment == 0)
    throw Error(ErrorCode::kInvalidInput, "the alignment of a packing is 0, expected at least 1");
  if (buffers.size() >= UINT32_MAX) throw Error(ErrorCode::kInvalidInput, "a packing of 2^32 buffers or more");
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(std::min(limit_s, kLongestTimeSeconds)));
  Bytes total;
  std::uint64_t common = 0;
  for (const IntervalBuffer& b : buffers) {
    if (b.first >= b.last)
      throw Error(ErrorCode::kInvalidInput, "a buffer's life is empty: it must begin before it ends");
    rounded_.push_back(b);
    rounded_.back().size = round_up(Bytes(b.size), options.alignment).count();
    is_rounded_ = is_rounded_ || rounded_.back().size != b.size;
    total += Bytes(rounded_.back().size);
    common = std::gcd(common, rounded_.back().size);
  }
  if (total.count() > INT64_MAX) throw Error(ErrorCode::kOverflow, "the sizes of all buffers together leave 63 bits");
  unit_ = std::max<std::uint64_t>(common, 1);
  sections_ = find_sections(rounded_);
}

/// In each section all sizes add up; only the highest buffer needs no rounding.
void IntervalPacker::find_bounds() {
  std::vector<std::uint64_t> begins(sections_.count + 1, 0);
  std::vector<std::uint64_t> ends(sections_.count + 1, 0);
  std::uint64_t most_padding = 0;
  for (std::size_t i = 0; i < rounded_.size(); ++i) {
    begins[sections_.spans[i].first] += rounded_[i].size;
    ends[sections_.spans[i].last] += rounded_[i].size;
    most_padding = std::max(most_padding, rounded_[i].size - originals_[i].size);
  }
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (std::size_t s = 0; s < sections_.count; ++s) {
    live = live + begins[s] - ends[s];
    most = std::max(most, live);
  }
  best_.lower_bound = most - std::min(most, most_padding);
}

void IntervalPacker::keep(const std::vector<std::uint64_t>& offsets) {
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) height = std::max(height, end_of(i, offsets[i]));
  if (!best_.offsets.empty() && height >= best_.height) return;
  best_.height = height;
  best_.offsets = offsets;
}

/// Several orders; then buffers that stick out move forward.
void IntervalPacker::pack_greedily() {
  AddressFit<IntervalConflicts> fit(IntervalConflicts(rounded_), {}, deadline_);
  const auto life = [&](std::uint32_t b) {
    return static_cast<double>(rounded_[b].last) - static_cast<double>(rounded_[b].first);
  };
  const auto size = [&](std::uint32_t b) { return static_cast<double>(rounded_[b].size); };
  const auto attempt = [&](auto key) {
    if (is_enough() && !best_.offsets.empty()) return;
    std::vector<double> keys(rounded_.size());
    Order order(rounded_.size());
    std::iota(order.begin(), order.end(), 0u);
    for (const std::uint32_t b : order) keys[b] = key(b);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return keys[a] > keys[b]; });
    fit.place(order);
    keep(fit.offsets());
    std::vector<std::uint32_t> raises(rounded_.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) keys[order[i]] = static_cast<double>(i);
    const std::uint64_t target = options_.capacity.value_or(best_.lower_bound);
    for (std::uint32_t round = 0; round < kExchangeRounds && !is_enough() && Clock::now() < deadline_; ++round) {
      for (std::uint32_t b = 0; b < rounded_.size(); ++b) {
        if (end_of(b, fit.offsets()[b]) > target) keys[b] = keys[b] * (++raises[b] % 3 == 0 ? 0.25 : 0.75) - 1.0;
      }
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return keys[a] < keys[b]; });
      fit.place(order);
      keep(fit.offsets());
    }
  };
  attempt([&](auto b) { return life(b); });
  attempt([&](auto b) { return life(b) * size(b); });
  attempt([&](auto b) { return size(b); });
  attempt([&](auto b) { return -static_cast<double>(rounded_[b].first); });
}

/// The exact search for a packing of the rounded sizes within the capacity; a packing found is kept.
SearchOutcome IntervalPacker::search(std::uint64_t capacity) {
  SearchProblem problem;
  std::vector<std::uint32_t> buffers;
  problem.sections = sections_.count;
  problem.capacity = static_cast<std::int64_t>(capacity / unit_);
  for (std::uint32_t i = 0; i < rounded_.size(); ++i) {
    if (rounded_[i].size == 0) continue;
    problem.items.push_back(
        {sections_.spans[i].first, sections_.spans[i].last, static_cast<std::int64_t>(rounded_[i].size / unit_)});
    buffers.push_back(i);
  }
  const RaceResult result = race(problem, deadline_);
  if (result.outcome == SearchOutcome::kFound) {
    std::vector<std::uint64_t> offsets(rounded_.size(), 0);
    for (std::size_t i = 0; i < buffers.size(); ++i)
      offsets[buffers[i]] = static_cast<std::uint64_t>(result.offsets[i]) * unit_;
    keep(offsets);
  }
  return result.outcome;
}

/// Halves what is open between the bound and the best packing.
void IntervalPacker::search_lowest() {
  // Capacities in units: below `open` none is left to try, at `known` one exists.
  std::uint64_t open = best_.lower_bound / unit_ + (best_.lower_bound % unit_ != 0 ? 1 : 0);
  std::uint64_t known = best_.height / unit_ + (best_.height % unit_ != 0 ? 1 : 0);
  for (bool first = true; open < known; first = false) {
    const std::uint64_t capacity = first ? open : open + (known - open) / 2;
    const SearchOutcome outcome = search(capacity * unit_);
    if (outcome == SearchOutcome::kLimit) return;
    if (outcome == SearchOutcome::kFound) {
      known = std::min(capacity, best_.height / unit_ + (best_.height % unit_ != 0 ? 1 : 0));
    } else {
      open = capacity + 1;
      if (!is_rounded_) best_.lower_bound = std::max(best_.lower_bound, open * unit_);
    }
  }
}

IntervalPacking IntervalPacker::pack() {
  find_bounds();
  pack_greedily();
  std::uint64_t places = 0;
  for (const Sections::Span& span : sections_.spans) places += span.last - span.first;
  const bool can_search = places <= kMostPlaces;
  if (!options_.capacity) {
    best_.outcome = PackingOutcome::kPacked;
    if (!is_enough() && can_search) search_lowest();
    return best_;
  }
  if (best_.lower_bound > *options_.capacity) {
    best_.outcome = PackingOutcome::kInfeasible;
  } else if (is_enough()) {
    best_.outcome = PackingOutcome::kPacked;
  } else if (can_search) {
    const SearchOutcome outcome = search(*options_.capacity);
    if (outcome == SearchOutcome::kFound) best_.outcome = PackingOutcome::kPacked;
    if (outcome == SearchOutcome::kInfeasible && !is_rounded_) {
      best_.outcome = PackingOutcome::kInfeasible;
      best_.lower_bound = std::max(best_.lower_bound, (*options_.capacity / unit_ + 1) * unit_);
    }
  }
  return best_;
}

}  // namespace

IntervalPacking pack_intervals(std::span<const IntervalBuffer> buffers, const IntervalOptions& options) {
  if (buffers.empty()) {
    IntervalPacking empty;
    empty.outcome = PackingOutcome::kPacked;
    return empty;
  }
  return IntervalPacker(buffers, options).pack();
}

}  // namespace zeroplan::planner
