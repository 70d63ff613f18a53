// What a rank does together with the others. Purpose: one small interface behind which loopback, MPI and NCCL fit, with
// the pieces exactly as the plan states them. Main types: CollectivePiece, CollectiveCall, Collectives. Knows no plan
// and no executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/core/dtype.h"

namespace zeroplan::runtime {

/// Elements [begin, end) of each rank's shard of one flat group; rank r's part lies at r x shard + [begin, end) of a
/// whole group.
struct CollectivePiece {
  void* source = nullptr;       ///< a whole group, or this rank's shard alone
  void* destination = nullptr;  ///< likewise; may be the source (in place)
  std::uint64_t shard = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// One collective with all addresses resolved. All ranks pass calls of equal shape, in the same order on each channel.
struct CollectiveCall {
  DType dtype = DType::kFp32;
  std::vector<CollectivePiece> pieces;
  bool source_is_shard = false;
  bool destination_is_shard = false;
  bool accumulate = false;       ///< reduce-scatter: the sum over ranks is added to the destination
  std::byte* staging = nullptr;  ///< reductions of several processes: where the parts of other ranks come in
  std::size_t staging_bytes = 0;
};

/// Address of an element in a buffer.
inline std::byte* element_at(void* base, std::uint64_t element, DType dtype) {
  return static_cast<std::byte*>(base) + element * size_of(dtype);
}

/// Collectives that run at the same time on different lanes use different channels; within one they run in order.
enum class Channel { kGather, kReduce };
constexpr std::size_t kChannels = 2;

/// One rank's end. A call blocks its thread until the rank's own buffers may be used again, allocates no memory, and
/// throws `Stopped` once a peer failed. Sums run over the ranks in order 0 ... size - 1 in fp32, so that every rank and
/// every way to cut a group into pieces gives the same bits.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual std::uint64_t rank() const = 0;
  virtual std::uint64_t size() const = 0;

  /// Every rank's piece of its shard comes to each rank's whole group.
  virtual void all_gather(Channel channel, const CollectiveCall& call) = 0;
  /// Sources are whole groups; each rank gets the sum of its own part: in a shard buffer, or in place in its part of
  /// the source.
  virtual void reduce_scatter(Channel channel, const CollectiveCall& call) = 0;
  /// In place: each rank gets the sums of all parts.
  virtual void all_reduce(Channel channel, const CollectiveCall& call) = 0;
};

}  // namespace zeroplan::runtime
