// The flags of `train` that set an optimizer's constants. Main type: OptimizerFlags.
#pragma once

#include <map>
#include <string>

#include <CLI/App.hpp>

#include "runtime/optimizer/optimizer_settings.h"

namespace zeroplan::cli {

/// As typed; checked by `settings`.
class OptimizerFlags {
 public:
  void add_to(CLI::App& app);
  /// The optimizer's defaults with what was given. \throws Error{kUsage} for a flag that the optimizer lacks or a value
  /// out of range
  runtime::OptimizerSettings settings(planner::OptimizerKind kind) const;

 private:
  std::map<std::string, std::string> values_;  ///< by flag, those given
};

}  // namespace zeroplan::cli
