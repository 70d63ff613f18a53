// What `zeroplan --version` says.
#pragma once

#include <string>

#include "models/core/json.h"

namespace zeroplan::cli {

/// What this build has.
struct Features {
  std::string version;
  std::string commit;
  bool cuda = false;
  bool cudnn = false;
  bool nccl = false;
  bool mpi = false;
  bool io_uring = false;

  Json to_json() const;
  std::string to_text() const;
};

Features built_in_features();

}  // namespace zeroplan::cli
