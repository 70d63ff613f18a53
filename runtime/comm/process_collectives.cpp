#include "runtime/comm/process_collectives.h"

#include <algorithm>
#include <cstring>

#include "models/core/error.h"
#include "runtime/comm/ordered_sum.h"

namespace zeroplan::runtime {
namespace {

/// One message of an all-gather at most: long enough for the wire, short enough for MPI's counts.
constexpr std::size_t kGatherMessageBytes = std::size_t{16} << 20;

}  // namespace

ProcessCollectives::ProcessCollectives(Transport& transport, std::uint64_t rank, std::uint64_t size,
                                       const StopSignal& stop)
    : transport_(transport), rank_(rank), size_(size), stop_(stop), workspaces_(kChannels) {
  for (Workspace& workspace : workspaces_) {
    workspace.sends.reserve(size);
    workspace.receives.reserve(size);
    workspace.parts.resize(size);
  }
}

void ProcessCollectives::all_gather(Channel channel, const CollectiveCall& call) {
  gather(channel, call, call.source_is_shard);
}

void ProcessCollectives::gather(Channel channel, const CollectiveCall& call, bool source_is_shard) {
  Workspace& space = workspace(channel);
  const std::uint64_t step = kGatherMessageBytes / size_of(call.dtype);
  for (const CollectivePiece& piece : call.pieces) {
    for (std::uint64_t begin = piece.begin; begin < piece.end; begin += step) {
      const std::uint64_t end = std::min(piece.end, begin + step);
      const std::size_t bytes = (end - begin) * size_of(call.dtype);
      std::byte* own = element_at(piece.destination, rank_ * piece.shard + begin, call.dtype);
      std::byte* source = source_is_shard ? element_at(piece.source, begin, call.dtype)
                                          : element_at(piece.source, rank_ * piece.shard + begin, call.dtype);
      if (source != own) std::memcpy(own, source, bytes);
      space.sends.clear();
      space.receives.clear();
      for (std::uint64_t peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        space.sends.push_back({peer, own, bytes});
        space.receives.push_back({peer, element_at(piece.destination, peer * piece.shard + begin, call.dtype), bytes});
      }
      transport_.exchange(channel, space.sends, space.receives, stop_);
    }
  }
}

void ProcessCollectives::reduce_scatter(Channel channel, const CollectiveCall& call) {
  // With no other rank nothing is staged.
  const std::uint64_t peers = std::max<std::uint64_t>(1, size_ - 1);
  std::uint64_t step = std::uint64_t{1} << 20;
  if (size_ > 1) {
    step = std::min(call.staging_bytes / peers, kMostMessageBytes) / size_of(call.dtype);
    ZP_CHECK(step > 0);
  }
  for (const CollectivePiece& piece : call.pieces) {
    for (std::uint64_t begin = piece.begin; begin < piece.end; begin += step)
      reduce_slice(channel, call, piece, begin, std::min(piece.end, begin + step));
  }
}

void ProcessCollectives::reduce_slice(Channel channel, const CollectiveCall& call, const CollectivePiece& piece,
                                      std::uint64_t begin, std::uint64_t end) {
  Workspace& space = workspace(channel);
  const std::size_t bytes = (end - begin) * size_of(call.dtype);
  space.sends.clear();
  space.receives.clear();
  std::byte* slot = static_cast<std::byte*>(call.staging);
  for (std::uint64_t peer = 0; peer < size_; ++peer) {
    std::byte* part = element_at(piece.source, peer * piece.shard + begin, call.dtype);
    if (peer == rank_) {
      space.parts[peer] = part;
      continue;
    }
    space.sends.push_back({peer, part, bytes});
    space.receives.push_back({peer, slot, bytes});
    space.parts[peer] = slot;
    slot += bytes;
  }
  transport_.exchange(channel, space.sends, space.receives, stop_);
  void* out =
      element_at(piece.destination, call.destination_is_shard ? begin : rank_ * piece.shard + begin, call.dtype);
  if (size_ == 1 && out == space.parts[0] && !call.accumulate) return;
  ordered_sum(call.dtype, space.parts, end - begin, call.accumulate, out);
}

void ProcessCollectives::all_reduce(Channel channel, const CollectiveCall& call) {
  reduce_scatter(channel, call);
  gather(channel, call, false);
}

}  // namespace zeroplan::runtime
