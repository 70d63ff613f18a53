// A build without MPI.
#include "models/core/error.h"
#include "runtime/comm/mpi_session.h"

namespace zeroplan::runtime {

bool has_mpi() {
  return false;
}

std::unique_ptr<MpiSession> start_mpi() {
  throw Error(ErrorCode::kUnsupported, "--rendezvous mpi: this build has no MPI")
      .at({.key = "--rendezvous", .value = "mpi"})
      .hint(
          "install Open MPI (libopenmpi-dev) and build again; or start the ranks without it: --rendezvous env, "
          "file:PATH "
          "or tcp:HOST:PORT");
}

}  // namespace zeroplan::runtime
