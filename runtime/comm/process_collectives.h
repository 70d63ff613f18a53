// One rank a process. Purpose: the collectives of several processes from exchanges, with sums in rank order, equal bit
// for bit to those of loopback. Main type: ProcessCollectives. Depends on transport and ordered_sum.
//
// Bytes that a rank sends, of a piece of n bytes a shard with N ranks: all-gather and reduce-scatter (N - 1) x n,
// all-reduce twice that. Pieces go in slices, so that reductions need no more staging than N - 1 slices.
#pragma once

#include "runtime/comm/transport.h"

namespace zeroplan::runtime {

class ProcessCollectives final : public Collectives {
 public:
  /// `transport` and `stop` must outlive this.
  ProcessCollectives(Transport& transport, std::uint64_t rank, std::uint64_t size, const StopSignal& stop);

  std::uint64_t rank() const override { return rank_; }
  std::uint64_t size() const override { return size_; }

  void all_gather(Channel channel, const CollectiveCall& call) override;
  void reduce_scatter(Channel channel, const CollectiveCall& call) override;
  void all_reduce(Channel channel, const CollectiveCall& call) override;

 private:
  /// What one channel's call works with; room for all ranks from the start.
  struct Workspace {
    std::vector<Message> sends;
    std::vector<Message> receives;
    std::vector<const void*> parts;  ///< by rank
  };

  Workspace& workspace(Channel channel) { return workspaces_[static_cast<std::size_t>(channel)]; }
  void gather(Channel channel, const CollectiveCall& call, bool source_is_shard);
  /// Elements [begin, end) of the shards of one piece.
  void reduce_slice(Channel channel, const CollectiveCall& call, const CollectivePiece& piece, std::uint64_t begin,
                    std::uint64_t end);

  Transport& transport_;
  std::uint64_t rank_;
  std::uint64_t size_;
  const StopSignal& stop_;
  std::vector<Workspace> workspaces_;
};

}  // namespace zeroplan::runtime
