#include "planner/schedule/buckets.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroplan::planner {

std::vector<Bucket> fill_buckets(const Partition& partition, const std::vector<std::uint32_t>& groups,
                                 std::uint64_t most_elements, std::string_view flag) {
  const std::uint64_t room = most_elements / partition.ranks / kTensorAlignment * kTensorAlignment;
  if (room == 0) {
    const std::uint64_t least = partition.ranks * kTensorAlignment;
    throw Error(ErrorCode::kUsage, fmt::format("{} {}: expected at least {}, {} elements of each of the {} ranks", flag,
                                               most_elements, least, kTensorAlignment, partition.ranks))
        .at({.key = std::string(flag), .value = fmt::format("{}", most_elements)});
  }
  std::vector<Bucket> buckets;
  std::uint64_t left = 0;
  for (std::size_t position = 0; position < groups.size(); ++position) {
    const std::uint64_t shard = partition.groups[groups[position]].shard.count();
    for (std::uint64_t begin = 0; begin < shard;) {
      // A group that fits into one collective is not cut to fill up the one before.
      if (left == 0 || (begin == 0 && shard > left && shard <= room)) {
        buckets.emplace_back();
        left = room;
      }
      const std::uint64_t end = begin + std::min(left, shard - begin);
      buckets.back().pieces.push_back({groups[position], begin, end});
      buckets.back().last_position = position;
      left -= end - begin;
      begin = end;
    }
  }
  return buckets;
}

}  // namespace zeroplan::planner
