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

kernels::LambUpdate lamb_update_call(const StatePiece& piece, const TensorPart& part, const double* ratios,
                                     const kernels::StepScalars* scalars) {
  ZP_CHECK(piece.moments.size() == 2);
  kernels::LambUpdate call;
  set_parameters(call, piece);
  call.count = part.count;
  call.parameter += part.skipped;
  if (call.parameter_copy != nullptr) {
    call.parameter_copy =
        static_cast<std::byte*>(call.parameter_copy) + (Elements(part.skipped) * call.copy_dtype).count();
  }
  call.first_moment = reinterpret_cast<const float*>(piece.moments[0]) + part.skipped;
  call.second_moment = reinterpret_cast<const float*>(piece.moments[1]) + part.skipped;
  call.ratio = ratios + part.parameter;
  call.scalars = scalars;
  return call;
}

}  // namespace zeroplan::runtime
