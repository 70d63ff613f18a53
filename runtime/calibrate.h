// Measures this machine for plans on its CPU (interface.md, section 8). Purpose: a machine document whose figures come
// from the real kernels, workers and loopback collectives, without ever seeing a model. Main types: CalibrateOptions,
// calibrate. Must not depend on simulator or cli.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/machine.h"

namespace zeroplan::runtime {

struct CalibrateOptions {
  bool quick = false;                                     ///< fewer repeats, smaller extents, fp32 alone
  std::optional<std::string> disk_dir;                    ///< measure the disk that holds this folder
  std::string command = "zeroplan calibrate";             ///< recorded in the document
  std::function<void(const std::string& what)> progress;  ///< may be empty
};

/// Kernels run with 1 and 2 ranks at once, each with cores / ranks threads; collectives with 1, 2 and 4.
/// \throws Error{kIo} for a folder that cannot be written
planner::Machine calibrate(const CalibrateOptions& options);

}  // namespace zeroplan::runtime
