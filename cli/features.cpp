#include "cli/features.h"

#include <fmt/format.h>

#include "runtime/comm/mpi_session.h"

namespace zeroplan::cli {

Json Features::to_json() const {
  return {{"version", version},
          {"commit", commit},
          {"features", {{"cuda", cuda}, {"cudnn", cudnn}, {"nccl", nccl}, {"mpi", mpi}, {"io_uring", io_uring}}}};
}

std::string Features::to_text() const {
  const auto line = [](std::string_view name, bool has, std::string_view otherwise) {
    return fmt::format("  {:<9}{}\n", name, has ? "yes" : fmt::format("no   {}", otherwise));
  };
  return fmt::format("zeroplan {} ({})\n", version, commit) + line("cuda", cuda, "(training runs on the CPU)") +
         line("cudnn", cudnn, "(own attention kernel)") + line("nccl", nccl, "(one GPU)") +
         line("mpi", mpi, "(several processes over TCP)") +
         line("io_uring", io_uring, "(disk through pread and pwrite)");
}

Features built_in_features() {
  Features features;
  features.version = ZP_VERSION;
  features.commit = ZP_COMMIT;
  features.mpi = runtime::has_mpi();
  return features;
}

}  // namespace zeroplan::cli
