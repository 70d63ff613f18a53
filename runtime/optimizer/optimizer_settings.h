// The constants of an optimizer. Purpose: defaults by optimizer, which of them an optimizer has, and what values make
// sense. Main type: OptimizerSettings. Depends on planner/training_spec and kernels/step_scalars.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/step_scalars.h"
#include "planner/training_spec.h"

namespace zeroplan::runtime {

/// Under the names of the flags; those that the optimizer lacks have no effect. DeepSpeed's and PyTorch's defaults, but
/// the momentum, which is 0 there.
struct OptimizerSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;        ///< adagrad: 1e-10
  double momentum = 0.9;    ///< sgd
  bool nesterov = false;    ///< sgd
  double min_coeff = 0.01;  ///< lamb: least and largest trust ratio
  double max_coeff = 10;

  /// The defaults of an optimizer.
  static OptimizerSettings of(planner::OptimizerKind kind);
  /// \throws Error{kUsage} naming the flag
  void validate() const;
  /// Writes them where the kernels read them.
  void apply(kernels::StepScalars& scalars) const;
};

/// The flags that an optimizer has: "--beta1", ...
std::vector<std::string_view> optimizer_flags(planner::OptimizerKind kind);
/// Whether an optimizer has beta1 and beta2, which OneCycle moves. As in DeepSpeed SGD's momentum stays.
bool has_betas(planner::OptimizerKind kind);

}  // namespace zeroplan::runtime
