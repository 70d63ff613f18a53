// MPI, or its absence: two files implement this header, of which the build chooses one. Main type: MpiSession.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/transport.h"

namespace zeroplan::runtime {

/// Whether this build has MPI.
bool has_mpi();

/// MPI of this process, from its start to its end. One at a time; calls from one thread, but for those of a transport.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  virtual std::uint64_t rank() const = 0;
  virtual std::uint64_t size() const = 0;
  /// Rank 0's text comes to all; what others pass is ignored. At most 1 MiB.
  virtual std::string broadcast(const std::string& text) = 0;
  /// Each channel has a communicator of its own, so that lanes do not mix. It must not outlive the session.
  virtual std::unique_ptr<Transport> transport() = 0;
  /// A rank failed: the end must not wait for the others.
  virtual void abandon() = 0;
};

/// Starts MPI such that several threads may call it. \throws Error{kUnsupported} if this build has no MPI or MPI no
/// threads
std::unique_ptr<MpiSession> start_mpi();

}  // namespace zeroplan::runtime
