#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/ranges.h"
#include "runtime/weights/weight_source.h"

namespace zeroplan::runtime {
namespace {

/// Elements [begin, begin + count) of a padded group, in memory.
struct GroupRange {
  std::byte* data = nullptr;
  DType dtype = DType::kFp32;
  Elements begin;
  Elements count;
};

void fill_range(const planner::ShardGroup& group, const GroupRange& range, const WeightSource& source) {
  if (range.data == nullptr) return;
  std::memset(range.data, 0, (range.count * range.dtype).count());
  std::array<float, 16384> block;
  const std::uint64_t range_end = (range.begin + range.count).count();
  for (const planner::PartitionedTensor& tensor : group.tensors) {
    const std::uint64_t tensor_begin = tensor.offset.count();
    const std::uint64_t end = std::min(range_end, (tensor.offset + tensor.elements).count());
    for (std::uint64_t at = std::max(range.begin.count(), tensor_begin); at < end; at += block.size()) {
      const std::size_t n = std::min<std::uint64_t>(block.size(), end - at);
      source.read(tensor.parameter, Elements(at - tensor_begin), std::span(block).first(n));
      kernels::reference::copy({.out_dtype = range.dtype,
                                .count = n,
                                .x = block.data(),
                                .out = range.data + (at - range.begin.count()) * size_of(range.dtype)});
    }
  }
}

}  // namespace

void fill_group(const planner::Plan& plan, const GroupState& group, const WeightSource& source) {
  const planner::ShardGroup& shard_group = plan.partition.groups.at(group.group);
  fill_range(shard_group, {group.parameters, group.parameter_dtype, group.parameters_begin, group.parameters_count},
             source);
  fill_range(shard_group,
             {reinterpret_cast<std::byte*>(group.master), DType::kFp32, group.states_begin, group.states_count},
             source);
}

}  // namespace zeroplan::runtime
