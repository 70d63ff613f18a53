// Exchanges over TCP: for processes that no MPI started. Main function: make_socket_transport. Depends on rendezvous.
#pragma once

#include "runtime/comm/rendezvous.h"
#include "runtime/comm/transport.h"

namespace zeroplan::runtime {

/// Connects every pair of members once for each channel. `meeting` is needed for the call only.
/// \throws Error{kCollective} naming whom it could not reach
std::unique_ptr<Transport> make_socket_transport(const Meeting& meeting, std::chrono::seconds timeout);

}  // namespace zeroplan::runtime
