#include "planner/schedule/gather_schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroplan::planner {
namespace {

using Uses = std::vector<std::vector<std::uint32_t>>;

std::uint64_t sum_of(const std::vector<std::uint32_t>& groups, const std::vector<std::uint64_t>& elements) {
  std::uint64_t sum = 0;
  for (const std::uint32_t g : groups) sum += elements[g];
  return sum;
}

/// Two uses in a row of one group, and whether it stays gathered between them.
struct Pair {
  std::uint32_t group;
  std::uint32_t from;
  std::uint32_t to;
  std::uint64_t distance;
  bool stays;
};

std::vector<Pair> consecutive_uses(const Uses& uses, const std::vector<std::uint64_t>& elements) {
  std::vector<std::uint64_t> used_before(uses.size() + 1, 0);
  for (std::size_t c = 0; c < uses.size(); ++c) used_before[c + 1] = used_before[c] + sum_of(uses[c], elements);
  std::vector<std::int64_t> previous(elements.size(), -1);
  std::vector<Pair> pairs;
  for (std::uint32_t c = 0; c < uses.size(); ++c) {
    for (const std::uint32_t g : uses[c]) {
      if (previous[g] >= 0) {
        const auto from = static_cast<std::uint32_t>(previous[g]);
        pairs.push_back({g, from, c, used_before[c] - used_before[from + 1], false});
      }
      previous[g] = c;
    }
  }
  return pairs;
}

/// Lets groups stay, nearest reuse first, as long as what each task needs beside them remains within max_live.
void choose_reuse(std::vector<Pair>& pairs, const Uses& uses, const std::vector<std::uint64_t>& elements,
                  const GatherLimits& limits) {
  std::vector<std::uint64_t> live(uses.size());
  for (std::size_t c = 0; c < uses.size(); ++c) live[c] = sum_of(uses[c], elements);
  std::vector<std::size_t> order(pairs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return pairs[a].distance < pairs[b].distance; });
  for (const std::size_t i : order) {
    Pair& pair = pairs[i];
    if (pair.distance > limits.reuse_distance) break;
    const std::uint64_t size = elements[pair.group];
    const auto begin = live.begin() + pair.from + 1;
    const auto end = live.begin() + pair.to;
    if (std::any_of(begin, end, [&](std::uint64_t n) { return n + size > limits.max_live; })) continue;
    std::for_each(begin, end, [&](std::uint64_t& n) { n += size; });
    pair.stays = true;
  }
}

std::vector<Residency> residencies_of(const Uses& uses, const std::vector<Pair>& pairs, std::size_t groups) {
  std::vector<std::int64_t> open(groups, -1);  // index of the residency that a group is in
  std::vector<bool> stays_until(uses.size() * groups, false);
  std::vector<Residency> result;
  for (const Pair& pair : pairs) {
    if (pair.stays) stays_until[pair.to * groups + pair.group] = true;
  }
  for (std::uint32_t c = 0; c < uses.size(); ++c) {
    for (const std::uint32_t g : uses[c]) {
      if (stays_until[c * groups + g]) {
        result[static_cast<std::size_t>(open[g])].last_use = c;
      } else {
        open[g] = static_cast<std::int64_t>(result.size());
        result.push_back({g, c, c, -1});
      }
    }
  }
  return result;
}

/// Whether the gather may start once compute task `after` has ended, given those issued before it.
class IssueRule {
 public:
  IssueRule(const std::vector<Residency>& all, const std::vector<std::uint64_t>& elements, const GatherLimits& limits)
      : all_(all), elements_(elements), limits_(limits) {}

  bool allows(std::size_t index, std::int64_t after) const {
    const Residency& r = all_[index];
    for (auto running = after + 1; running < static_cast<std::int64_t>(r.first_use); ++running) {
      std::uint64_t ahead = elements_[r.group];
      std::uint64_t live = elements_[r.group];
      for (std::size_t i = 0; i < index; ++i) {
        if (all_[i].last_use < running || all_[i].issued_after >= running) continue;
        if (all_[i].group == r.group) return false;  // still gathered from an earlier use
        live += elements_[all_[i].group];
        if (all_[i].first_use > running) ahead += elements_[all_[i].group];
      }
      if (ahead > limits_.prefetch || live > limits_.max_live) return false;
    }
    return true;
  }

 private:
  const std::vector<Residency>& all_;
  const std::vector<std::uint64_t>& elements_;
  const GatherLimits& limits_;
};

}  // namespace

std::vector<Residency> schedule_gathers(const Uses& uses, const std::vector<std::uint64_t>& elements,
                                        const GatherLimits& limits) {
  for (const auto& groups : uses) {
    const std::uint64_t needed = sum_of(groups, elements);
    if (needed > limits.max_live) {
      throw Error(ErrorCode::kUsage, fmt::format("--max-live-parameters {}: one unit alone needs {} elements gathered",
                                                 limits.max_live, needed))
          .at({.key = "--max-live-parameters", .value = fmt::format("{}", limits.max_live)})
          .hint(fmt::format("give at least {}", needed));
    }
  }
  std::vector<Pair> pairs = consecutive_uses(uses, elements);
  choose_reuse(pairs, uses, elements, limits);
  std::vector<Residency> result = residencies_of(uses, pairs, elements.size());
  const IssueRule rule(result, elements, limits);
  std::int64_t earliest = -1;  // gathers run in order, so none is issued before the one in front of it
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::int64_t after = static_cast<std::int64_t>(result[i].first_use) - 1;
    while (after > earliest && rule.allows(i, after - 1)) --after;
    result[i].issued_after = after;
    earliest = after;
  }
  return result;
}

std::uint64_t most_live(const std::vector<Residency>& residencies, const std::vector<std::uint64_t>& elements,
                        std::size_t compute_tasks) {
  std::uint64_t most = 0;
  for (std::size_t c = 0; c < compute_tasks; ++c) {
    std::uint64_t live = 0;
    for (const Residency& r : residencies) {
      if (r.issued_after < static_cast<std::int64_t>(c) && r.last_use >= c) live += elements[r.group];
    }
    most = std::max(most, live);
  }
  return most;
}

}  // namespace zeroplan::planner
