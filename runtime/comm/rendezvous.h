// How the processes of one run find each other. Purpose: from what a process was told (by MPI, by torchrun's variables,
// a file or an address) to a connection with rank 0 and the list of all members; everything above is the same for all
// kinds, NCCL included. Main types: RendezvousSettings, Member, Meeting. Depends on frame and socket.
#pragma once

#include <memory>
#include <optional>

#include "runtime/comm/frame.h"
#include "runtime/comm/mpi_session.h"

namespace zeroplan::runtime {

enum class RendezvousKind { kMpi, kEnvironment, kFile, kTcp };

/// As asked for.
struct RendezvousSettings {
  RendezvousKind kind = RendezvousKind::kMpi;
  std::string text = "mpi";  ///< as typed
  std::string path;          ///< kFile: written by rank 0, on a file system of all
  std::string host;          ///< kTcp, kEnvironment: of rank 0
  std::uint16_t port = 0;
  std::string key;                    ///< joins only processes of the same run
  bool is_port_taken = false;         ///< kEnvironment: torchrun itself listens on the port, rank 0 on one of the next
  std::optional<std::uint64_t> rank;  ///< not kMpi
  std::uint64_t size = 1;
  std::chrono::seconds timeout{60};  ///< for all to come
};

/// mpi, env, file:PATH or tcp:HOST:PORT, with the rank of `rank` or else of the variable RANK, and of `env` the
/// variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them. \param size  ranks of the plan.
/// \throws Error{kUsage} for other texts, and for variables that are missing or contradict the plan
RendezvousSettings parse_rendezvous(const std::string& text, std::optional<std::uint64_t> rank, std::uint64_t size);

/// One process, as all others know it.
struct Member {
  Endpoint endpoint;  ///< where it listens for data
  std::uint64_t process = 0;

  /// "rank 2 (host node1, process 4711)"
  std::string describe(std::uint64_t rank) const;
};

/// All are there.
struct Meeting {
  std::uint64_t rank = 0;
  std::vector<Member> members;      ///< by rank
  std::vector<Socket> connections;  ///< rank 0: to each rank, by rank, its own closed; others: to rank 0 alone
  std::unique_ptr<Listener> data;   ///< of this process' endpoint
  std::string key;
  std::unique_ptr<MpiSession> mpi;  ///< kMpi

  std::uint64_t size() const { return members.size(); }
};

/// Waits for all ranks. \throws Error{kUsage} if MPI started another number of ranks or two claim the same one,
/// Error{kCollective} naming who has not come in time
Meeting meet(const RendezvousSettings& settings);

/// Connects to a member's endpoint, by the loopback where it is on this host. \returns a closed socket if it is not
/// reached before the deadline
Socket connect_to(const Endpoint& endpoint, Deadline deadline);

}  // namespace zeroplan::runtime
