#include "runtime/comm/process_group.h"

#include <algorithm>

#include "runtime/comm/socket_transport.h"

namespace zeroplan::runtime {

ProcessGroup::ProcessGroup(const ProcessSettings& settings) : meeting_(meet(settings.rendezvous)) {
  control_ = std::make_unique<ControlPlane>(meeting_, settings.heartbeat);
  try {
    transport_ =
        meeting_.mpi ? meeting_.mpi->transport() : make_socket_transport(meeting_, settings.rendezvous.timeout);
  } catch (...) {
    if (meeting_.mpi) meeting_.mpi->abandon();
    throw;
  }
}

ProcessGroup::~ProcessGroup() {
  // MPI's end waits for all ranks, which do not come after a failure.
  if (meeting_.mpi && control_->has_failed()) meeting_.mpi->abandon();
}

std::uint64_t ProcessGroup::ranks_on_host() const {
  const std::string& host = meeting_.members[rank()].endpoint.host;
  return static_cast<std::uint64_t>(std::count_if(meeting_.members.begin(), meeting_.members.end(),
                                                  [&](const Member& m) { return m.endpoint.host == host; }));
}

std::unique_ptr<Collectives> ProcessGroup::collectives(StopSignal& stop) {
  return std::make_unique<ProcessCollectives>(*transport_, rank(), size(), stop);
}

}  // namespace zeroplan::runtime
