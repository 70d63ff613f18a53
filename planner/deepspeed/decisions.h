// A user's ds_config as the fixed part of a plan of ours. Purpose: turn what the file says into decisions, and say what
// of it a plan does not hold (`train` takes learning rate, clipping and schedule). Main types: ConfigDecisions,
// BatchFlags. Depends on the reader and the checks of this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::planner::deepspeed {

/// Sizes given by flags: they win over the file.
struct BatchFlags {
  std::optional<std::uint64_t> micro_batch;
  std::optional<std::uint64_t> accumulation;
  std::optional<std::uint64_t> global_batch;
};

/// What a file decides. What it leaves open, or leaves to `auto`, is not set.
struct ConfigDecisions {
  FixedDecisions fixed;
  std::optional<Precision> precision;
  std::optional<OptimizerKind> optimizer;
  std::optional<ReduceType> reduce_dtype;
  std::optional<GradientType> gradient_dtype;
  std::vector<std::string> notes;  ///< sentences: what of the file is for `train`, and what has no counterpart here
};

/// Reads a file, comments and trailing commas included, for a run of so many data-parallel ranks.
/// \throws Error{kInvalidInput} for a file that DeepSpeed could not run (the first finding of `check`), `auto` and
/// batch sizes that flags replace apart; Error{kUnsupported} for parallelism or optimizers that a plan does not have.
ConfigDecisions read_decisions(std::string_view text, const std::string& file, std::uint64_t ranks,
                               const BatchFlags& flags);

}  // namespace zeroplan::planner::deepspeed
