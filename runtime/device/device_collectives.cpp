#include "runtime/device/device_collectives.h"

#include <fmt/format.h>

namespace zeroplan::runtime {
namespace {

using kernels::DeviceStream;

/// A copy between two ranks' buffers.
struct RankCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

/// First all sums, then all copies.
class DeviceCollective final : public DeviceTask {
 public:
  DeviceCollective(const DeviceContext& context, const planner::CollectiveWork& work) : context_(context), work_(work) {
    if (context.ranks.size() + 1 > kernels::kMostSummed) {
      throw Error(ErrorCode::kUnsupported, fmt::format("{} ranks on one device, expected at most {}",
                                                       context.ranks.size(), kernels::kMostSummed - 1));
    }
    for (std::size_t p = 0; p < work.pieces.size(); ++p) {
      const planner::ShardGroup& group = context.plan.partition.groups.at(work.pieces[p].group);
      check(work.source.at(p), work.source_is_shard ? group.shard : group.padded);
      check(work.destination.at(p), work.destination_is_shard ? group.shard : group.padded);
      ZP_CHECK(work.pieces[p].begin <= work.pieces[p].end && work.pieces[p].end <= group.shard.count());
      switch (work.kind) {
        case planner::CollectiveKind::kAllGather:
          add_gather(p);
          break;
        case planner::CollectiveKind::kReduceScatter:
          add_sums(p);
          break;
        case planner::CollectiveKind::kAllReduce:
          add_sums(p);
          add_exchange(p);
          break;
      }
    }
  }

  void enqueue(DeviceStream& stream, const StepPosition& position) override {
    sums_.enqueue(stream, position);
    for (const RankCopy& copy : copies_) stream.copy(copy.to, copy.from, copy.bytes);
  }

 private:
  void check(planner::BufferId buffer, Elements elements) const {
    if (elements * work_.dtype > Bytes(context_.plan.buffers.at(buffer).bytes)) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("buffer {} is smaller than the group that a collective moves",
                                                        context_.plan.buffers.at(buffer).name));
    }
  }

  /// Where rank `owner`'s part of a piece lies in a buffer of rank `holder`.
  std::byte* part(std::size_t p, planner::BufferId buffer, bool is_shard, std::size_t holder, std::size_t owner) const {
    const std::uint64_t shard = context_.plan.partition.groups[work_.pieces[p].group].shard.count();
    const std::uint64_t element = (is_shard ? 0 : owner * shard) + work_.pieces[p].begin;
    return context_.ranks[holder].arenas->address(buffer) + element * size_of(work_.dtype);
  }
  std::byte* source(std::size_t p, std::size_t holder, std::size_t owner) const {
    return part(p, work_.source[p], work_.source_is_shard, holder, owner);
  }
  std::byte* destination(std::size_t p, std::size_t holder, std::size_t owner) const {
    return part(p, work_.destination[p], work_.destination_is_shard, holder, owner);
  }
  std::size_t elements(std::size_t p) const { return work_.pieces[p].end - work_.pieces[p].begin; }
  std::size_t bytes(std::size_t p) const { return elements(p) * size_of(work_.dtype); }

  void add_gather(std::size_t p) {
    for (std::size_t to = 0; to < context_.ranks.size(); ++to) {
      for (std::size_t owner = 0; owner < context_.ranks.size(); ++owner) {
        const std::byte* from = source(p, owner, owner);
        std::byte* target = part(p, work_.destination[p], false, to, owner);
        if (from != target) copies_.push_back({target, from, bytes(p)});
      }
    }
  }

  void add_sums(std::size_t p) {
    for (std::size_t owner = 0; owner < context_.ranks.size(); ++owner) {
      kernels::SumInOrder sum;
      sum.dtype = work_.dtype;
      sum.count = elements(p);
      sum.out = destination(p, owner, owner);
      for (std::size_t r = 0; r < context_.ranks.size(); ++r) sum.inputs[sum.input_count++] = source(p, r, owner);
      if (work_.accumulate) sum.inputs[sum.input_count++] = sum.out;
      if (sum.input_count == 1 && sum.inputs[0] == sum.out) continue;
      kernels::DeviceCall call;
      call.op = sum;
      prepare_call(context_, "a reduction", call);
      sums_.calls.push_back(call);
    }
  }

  void add_exchange(std::size_t p) {
    for (std::size_t to = 0; to < context_.ranks.size(); ++to) {
      for (std::size_t owner = 0; owner < context_.ranks.size(); ++owner) {
        if (to != owner) copies_.push_back({destination(p, to, owner), destination(p, owner, owner), bytes(p)});
      }
    }
  }

  const DeviceContext context_;
  planner::CollectiveWork work_;
  DeviceCalls sums_;
  std::vector<RankCopy> copies_;
};

}  // namespace

std::unique_ptr<DeviceTask> make_device_collective(const DeviceContext& context, const planner::Task& task) {
  return std::make_unique<DeviceCollective>(context, std::get<planner::CollectiveWork>(task.work));
}

}  // namespace zeroplan::runtime
