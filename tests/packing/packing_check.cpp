#include "tests/packing/packing_check.h"

#include <algorithm>
#include <numeric>

namespace zeroplan::planner {
namespace {

bool live_at_once(const IntervalBuffer& a, const IntervalBuffer& b) {
  return a.first < b.last && b.first < a.last;
}

}  // namespace

bool is_valid(const ConflictInstance& instance, std::span<const std::uint64_t> offsets) {
  if (offsets.size() != instance.sizes.size()) return false;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    for (const std::uint32_t j : instance.conflicts[i]) {
      const bool both = instance.sizes[i] > 0 && instance.sizes[j] > 0;
      if (both && offsets[i] < offsets[j] + instance.sizes[j] && offsets[j] < offsets[i] + instance.sizes[i])
        return false;
    }
    if (!instance.pinned.empty() && instance.pinned[i] != kNotPinned && instance.pinned[i] != offsets[i]) return false;
  }
  return true;
}

bool is_valid(std::span<const IntervalBuffer> buffers, std::span<const std::uint64_t> offsets,
              std::uint64_t alignment) {
  if (offsets.size() != buffers.size()) return false;
  if (std::any_of(offsets.begin(), offsets.end(), [&](std::uint64_t o) { return o % alignment != 0; })) return false;
  return is_valid(listed(buffers), offsets);
}

std::uint64_t height_of(std::span<const IntervalBuffer> buffers, std::span<const std::uint64_t> offsets) {
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size > 0) height = std::max(height, offsets[i] + buffers[i].size);
  }
  return height;
}

std::uint64_t most_live(std::span<const IntervalBuffer> buffers) {
  std::uint64_t most = 0;
  for (const IntervalBuffer& at : buffers) {
    std::uint64_t live = 0;
    for (const IntervalBuffer& b : buffers) live += b.first <= at.first && at.first < b.last ? b.size : 0;
    most = std::max(most, live);
  }
  return most;
}

std::uint64_t lowest_by_trying_all(const ConflictInstance& instance) {
  const auto n = static_cast<std::uint32_t>(instance.sizes.size());
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::uint64_t best = UINT64_MAX;
  std::vector<std::uint64_t> ends(n);
  do {
    // In order of offsets, an optimal packing has each buffer on the highest of those below it.
    std::uint64_t height = 0;
    for (std::uint32_t at = 0; at < n; ++at) {
      std::uint64_t offset = 0;
      for (std::uint32_t before = 0; before < at; ++before) {
        const auto& row = instance.conflicts[order[at]];
        if (std::binary_search(row.begin(), row.end(), order[before])) offset = std::max(offset, ends[before]);
      }
      ends[at] = offset + instance.sizes[order[at]];
      height = std::max(height, ends[at]);
    }
    best = std::min(best, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::uint64_t lowest_by_trying_all(std::span<const IntervalBuffer> buffers) {
  return lowest_by_trying_all(listed(buffers));
}

std::vector<IntervalBuffer> random_buffers(std::mt19937_64& random, std::uint32_t count, std::int64_t times,
                                           std::uint64_t most_size) {
  std::vector<IntervalBuffer> buffers(count);
  for (IntervalBuffer& b : buffers) {
    b.first = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(times));
    b.last = b.first + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(times - b.first));
    b.size = 1 + random() % most_size;
  }
  return buffers;
}

std::vector<IntervalBuffer> cut_rectangle(std::mt19937_64& random, std::uint32_t cuts, std::int64_t duration,
                                          std::uint64_t height) {
  std::vector<IntervalBuffer> parts = {{0, duration, height}};
  for (std::uint32_t cut = 0; cut < cuts; ++cut) {
    const std::size_t at = random() % parts.size();
    IntervalBuffer& part = parts[at];
    IntervalBuffer other = part;
    if (random() % 2 == 0 && part.last - part.first > 1) {
      part.last =
          part.first + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(part.last - part.first - 1));
      other.first = part.last;
    } else if (part.size > 1) {
      part.size = 1 + random() % (part.size - 1);
      other.size -= part.size;
    } else {
      continue;
    }
    parts.push_back(other);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

ConflictInstance listed(std::span<const IntervalBuffer> buffers) {
  ConflictInstance instance;
  for (const IntervalBuffer& b : buffers) {
    instance.sizes.push_back(b.size);
    instance.stays.push_back({static_cast<std::uint32_t>(instance.stays.size()), static_cast<std::uint32_t>(b.first),
                              static_cast<std::uint32_t>(b.last - 1)});
  }
  instance.conflicts =
      conflict_lists(static_cast<std::uint32_t>(buffers.size()),
                     [&](std::uint32_t i, std::uint32_t j) { return live_at_once(buffers[i], buffers[j]); });
  return instance;
}

}  // namespace zeroplan::planner
