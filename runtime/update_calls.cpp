#include "runtime/update_calls.h"

#include <algorithm>

namespace zeroplan::runtime {

std::vector<TensorPart> tensor_parts(const planner::Plan& plan, std::uint32_t group, const StatePiece& piece) {
  std::vector<TensorPart> parts;
  const std::uint64_t begin = piece.group_begin.count();
  for (const planner::PartitionedTensor& tensor : plan.partition.groups.at(group).tensors) {
    const std::uint64_t first = std::max(begin, tensor.offset.count());
    const std::uint64_t last = std::min(begin + piece.count, (tensor.offset + tensor.elements).count());
    if (first < last) parts.push_back({tensor.parameter, first - begin, last - first});
  }
  return parts;
}

}  // namespace zeroplan::runtime
