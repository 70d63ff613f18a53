#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include "kernels/ranges.h"
#include "kernels/workers.h"
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

/// Some elements of a tensor and where they go.
struct FillPiece {
  std::size_t parameter = 0;
  Elements first;
  std::size_t count = 0;
  std::byte* target = nullptr;
};

constexpr std::size_t kFillBlock = 16384;

std::vector<FillPiece> fill_pieces(const planner::ShardGroup& group, const GroupRange& range) {
  std::vector<FillPiece> pieces;
  const std::uint64_t range_end = (range.begin + range.count).count();
  for (const planner::PartitionedTensor& tensor : group.tensors) {
    const std::uint64_t tensor_begin = tensor.offset.count();
    const std::uint64_t end = std::min(range_end, (tensor.offset + tensor.elements).count());
    for (std::uint64_t at = std::max(range.begin.count(), tensor_begin); at < end; at += kFillBlock) {
      pieces.push_back({tensor.parameter, Elements(at - tensor_begin), std::min<std::uint64_t>(kFillBlock, end - at),
                        range.data + (at - range.begin.count()) * size_of(range.dtype)});
    }
  }
  return pieces;
}

void fill_range(const planner::ShardGroup& group, const GroupRange& range, const WeightSource& source, int threads) {
  if (range.data == nullptr) return;
  std::memset(range.data, 0, (range.count * range.dtype).count());
  const std::vector<FillPiece> pieces = fill_pieces(group, range);
  const auto fill = [&](kernels::IndexRange part) {
    std::array<float, kFillBlock> block;
    for (std::size_t p = part.begin; p < part.end; ++p) {
      const FillPiece& piece = pieces[p];
      source.read(piece.parameter, piece.first, std::span(block).first(piece.count));
      kernels::reference::copy(
          {.out_dtype = range.dtype, .count = piece.count, .x = block.data(), .out = piece.target});
    }
  };
  if (threads <= 1) return fill({0, pieces.size()});
  // A source may throw, which a worker must not let out.
  std::exception_ptr error;
  std::mutex mutex;
  kernels::Workers workers(threads);
  workers.run_ranges(pieces.size(), 1, [&](kernels::IndexRange part) {
    try {
      fill(part);
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace

void fill_group(const planner::Plan& plan, const GroupState& group, const WeightSource& source, int threads) {
  const planner::ShardGroup& shard_group = plan.partition.groups.at(group.group);
  fill_range(shard_group, {group.parameters, group.parameter_dtype, group.parameters_begin, group.parameters_count},
             source, threads);
  fill_range(shard_group,
             {reinterpret_cast<std::byte*>(group.master), DType::kFp32, group.states_begin, group.states_count}, source,
             threads);
}

}  // namespace zeroplan::runtime
