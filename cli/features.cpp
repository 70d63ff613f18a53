#include "cli/features.h"

#include <fmt/format.h>

#include "runtime/comm/mpi_session.h"
#include "runtime/device/device_library.h"

namespace zeroplan::cli {

Json Features::to_json() const {
  return {{"version", version},
          {"commit", commit},
          {"features", {{"cuda", cuda}, {"cudnn", cudnn}, {"nccl", nccl}, {"mpi", mpi}, {"io_uring", io_uring}}}};
}

std::string Features::to_text() const {
  const auto line = [](std::string_view name, bool has, std::string_view note) {
    return fmt::format("  {:<9}{:<5}{}\n", name, has ? "yes" : "no", note);
  };
  const auto unless = [](bool has, std::string_view otherwise) { return has ? std::string_view() : otherwise; };
  return fmt::format("zeroplan {} ({})\n", version, commit) +
         line("cuda", cuda, cuda ? cuda_note : fmt::format("(training runs on the CPU: {})", cuda_note)) +
         line("cudnn", cudnn, cudnn ? cudnn_note : "(own attention kernel)") +
         line("nccl", nccl, unless(nccl, "(one GPU)")) + line("mpi", mpi, unless(mpi, "(several processes over TCP)")) +
         line("io_uring", io_uring, unless(io_uring, "(disk through pread and pwrite)"));
}

Features built_in_features() {
  Features features;
  features.version = ZP_VERSION;
  features.commit = ZP_COMMIT;
  features.mpi = runtime::has_mpi();
  return features;
}

Features find_features() {
  Features features = built_in_features();
  const runtime::DeviceLibrary library(runtime::DeviceLibrary::usual_paths());
  features.cuda_note = library.why_not();
  if (!library.is_open()) return features;
  try {
    const kernels::DeviceDescription found = library.open_device({})->description();
    features.cuda = true;
    features.cuda_note = fmt::format("{}, compute capability {}.{}, driver for CUDA {}.{}, {}", found.name,
                                     found.capability_major, found.capability_minor, found.driver_version / 1000,
                                     found.driver_version % 1000 / 10, found.matrix_library);
    features.cudnn = found.has_attention_library;
    features.cudnn_note = found.attention_library;
  } catch (const Error& error) {
    features.cuda_note = error.message();
  }
  return features;
}

}  // namespace zeroplan::cli
