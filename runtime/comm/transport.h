// Bytes between processes. Purpose: what the collectives of processes are made of, over MPI or over sockets. Main
// types: Message, Transport. Depends on collectives.h for the channels.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/comm/collectives.h"
#include "runtime/stop_signal.h"

namespace zeroplan::runtime {

/// What one peer sends to another in one exchange.
struct Message {
  std::uint64_t peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< at least 1, at most kMostMessageBytes
};

constexpr std::size_t kMostMessageBytes = std::size_t{1} << 30;

/// One process' end. Exchanges of one channel come in the same order on all ranks, one at a time; those of different
/// channels run at the same time.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Sends and receives at most one message of each peer; returns once all data may be used again. Allocates nothing of
  /// its own. \throws Stopped once `stop` was raised, Error{kCollective} if the peers cannot be reached
  virtual void exchange(Channel channel, std::span<const Message> sends, std::span<const Message> receives,
                        const StopSignal& stop) = 0;
};

}  // namespace zeroplan::runtime
