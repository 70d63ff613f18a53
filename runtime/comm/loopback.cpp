#include "runtime/comm/loopback.h"

#include <cstring>

#include "models/core/error.h"
#include "runtime/comm/ordered_sum.h"

namespace zeroplan::runtime {
/// One rank's end: publishes its call, meets the others, reads their memory, meets them again before anybody changes
/// it.
class LoopbackCollectives final : public Collectives {
 public:
  LoopbackCollectives(LoopbackGroup& group, std::uint64_t rank) : group_(group), rank_(rank), parts_(kChannels) {
    for (auto& parts : parts_) parts.resize(group.size());
  }

  std::uint64_t rank() const override { return rank_; }
  std::uint64_t size() const override { return group_.size(); }

  void all_gather(Channel channel, const CollectiveCall& call) override {
    publish(channel, call);
    for (std::size_t p = 0; p < call.pieces.size(); ++p) {
      const CollectivePiece& mine = call.pieces[p];
      for (std::uint64_t r = 0; r < size(); ++r) {
        const CollectiveCall& theirs = peer(channel, r);
        const std::uint64_t from = theirs.source_is_shard ? mine.begin : r * mine.shard + mine.begin;
        const std::byte* source = element_at(theirs.pieces[p].source, from, call.dtype);
        std::byte* destination = element_at(mine.destination, r * mine.shard + mine.begin, call.dtype);
        if (source != destination) std::memcpy(destination, source, (mine.end - mine.begin) * size_of(call.dtype));
      }
    }
    meet(channel);
  }

  void reduce_scatter(Channel channel, const CollectiveCall& call) override {
    publish(channel, call);
    reduce_own_parts(channel, call);
    meet(channel);
  }

  void all_reduce(Channel channel, const CollectiveCall& call) override {
    publish(channel, call);
    reduce_own_parts(channel, call);
    meet(channel);
    for (std::size_t p = 0; p < call.pieces.size(); ++p) {
      const CollectivePiece& mine = call.pieces[p];
      for (std::uint64_t r = 0; r < size(); ++r) {
        if (r == rank_) continue;
        const std::uint64_t element = r * mine.shard + mine.begin;
        std::memcpy(element_at(mine.destination, element, call.dtype),
                    element_at(peer(channel, r).pieces[p].destination, element, call.dtype),
                    (mine.end - mine.begin) * size_of(call.dtype));
      }
    }
    meet(channel);
  }

 private:
  LoopbackGroup::Meeting& meeting(Channel channel) { return group_.meetings_[static_cast<std::size_t>(channel)]; }
  const CollectiveCall& peer(Channel channel, std::uint64_t rank) { return *meeting(channel).calls[rank]; }

  void publish(Channel channel, const CollectiveCall& call) {
    meeting(channel).calls[rank_] = &call;
    meet(channel);
    ZP_CHECK(peer(channel, 0).pieces.size() == call.pieces.size());
  }

  /// Returns once all ranks have come here as often as this one.
  void meet(Channel channel) {
    Timeline& arrivals = meeting(channel).arrivals;
    arrivals.advance();
    met_[static_cast<std::size_t>(channel)] += size();
    if (!arrivals.wait(met_[static_cast<std::size_t>(channel)])) throw Stopped();
  }

  /// This rank's part of each piece: the sum over all ranks. Nobody else reads or writes that part meanwhile.
  void reduce_own_parts(Channel channel, const CollectiveCall& call) {
    auto& parts = parts_[static_cast<std::size_t>(channel)];
    for (std::size_t p = 0; p < call.pieces.size(); ++p) {
      const CollectivePiece& mine = call.pieces[p];
      const std::uint64_t element = rank_ * mine.shard + mine.begin;
      for (std::uint64_t r = 0; r < size(); ++r)
        parts[r] = element_at(peer(channel, r).pieces[p].source, element, call.dtype);
      void* out = element_at(mine.destination, call.destination_is_shard ? mine.begin : element, call.dtype);
      if (size() == 1 && out == parts[0] && !call.accumulate) continue;
      ordered_sum(call.dtype, parts, mine.end - mine.begin, call.accumulate, out);
    }
  }

  LoopbackGroup& group_;
  std::uint64_t rank_;
  std::vector<std::vector<const void*>> parts_;    ///< per channel, per rank
  std::array<std::uint64_t, kChannels> met_ = {};  ///< arrivals of all ranks at this rank's last meeting
};

LoopbackGroup::LoopbackGroup(std::uint64_t ranks, StopSignal& stop) : ranks_(ranks) {
  ZP_CHECK(ranks >= 1);
  for (Meeting& meeting : meetings_) {
    meeting.calls.assign(ranks, nullptr);
    stop.add(meeting.arrivals);
  }
}

std::unique_ptr<Collectives> LoopbackGroup::rank(std::uint64_t rank) {
  ZP_CHECK(rank < ranks_);
  return std::make_unique<LoopbackCollectives>(*this, rank);
}

}  // namespace zeroplan::runtime
