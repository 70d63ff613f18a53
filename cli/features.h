// What `zeroplan --version` says.
#pragma once

#include <string>

#include "models/core/json.h"

namespace zeroplan::cli {

/// What this build has, and what it found on this machine.
struct Features {
  std::string version;
  std::string commit;
  bool cuda = false;
  bool cudnn = false;
  bool nccl = false;
  bool mpi = false;
  bool io_uring = false;
  std::string cuda_note;   ///< the card and its libraries, or why there is none
  std::string cudnn_note;  ///< its version, or why there is none

  Json to_json() const;
  std::string to_text() const;
};

/// Without a look at the machine: no card.
Features built_in_features();
/// Opens the CUDA back end and its card where they are found.
Features find_features();

}  // namespace zeroplan::cli
