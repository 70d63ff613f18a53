// The flags of `train` that set the scale of the loss under fp16. Main type: LossScaleFlags.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "planner/training_spec.h"
#include "runtime/optimizer/loss_scaler.h"

namespace zeroplan::cli {

/// DeepSpeed's names for what its section fp16 sets.
class LossScaleFlags {
 public:
  void add(CLI::App& app);
  /// \throws Error{kUsage} for a wrong value, or for any of them where the loss is not scaled
  runtime::LossScaleSettings settings(planner::Precision precision) const;

 private:
  std::string scale_, power_, window_, hysteresis_, least_;
  bool consecutive_ = false;
};

}  // namespace zeroplan::cli
