// The processes of one run, one rank each. Purpose: everything that a rank needs of the others, whatever they were
// started by. Main types: ProcessSettings, ProcessGroup. Depends on control_plane, transports, collectives.
#pragma once

#include "runtime/comm/control_plane.h"
#include "runtime/comm/process_collectives.h"

namespace zeroplan::runtime {

struct ProcessSettings {
  RendezvousSettings rendezvous;
  HeartbeatSettings heartbeat;
};

/// Ends after all that uses it.
class ProcessGroup {
 public:
  /// Meets the others. \throws as `meet`
  explicit ProcessGroup(const ProcessSettings& settings);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  std::uint64_t rank() const { return meeting_.rank; }
  std::uint64_t size() const { return meeting_.size(); }
  /// Ranks on this rank's host.
  std::uint64_t ranks_on_host() const;
  const Member& member(std::uint64_t rank) const { return meeting_.members.at(rank); }

  ControlPlane& control() { return *control_; }
  /// This rank's end; once. Over MPI where MPI started the processes, else over TCP. Raised when any rank fails.
  std::unique_ptr<Collectives> collectives(StopSignal& stop);

 private:
  Meeting meeting_;
  std::unique_ptr<ControlPlane> control_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace zeroplan::runtime
