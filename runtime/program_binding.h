// A compute task with every operand resolved to an address. Purpose: bind once at start, so that a step only calls
// kernels. Main types: BoundOp, BoundProgram. Depends on planner/plan and kernels.
#pragma once

#include <variant>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/arena.h"
#include "runtime/step_profile.h"

namespace zeroplan::runtime {

/// One kernel call with its arguments.
using BoundOp = std::variant<kernels::EmbeddingForward, kernels::EmbeddingBackward, kernels::LayerNormForward,
                             kernels::LayerNormBackward, kernels::RmsNormForward, kernels::RmsNormBackward,
                             kernels::LinearForward, kernels::LinearBackwardInput, kernels::LinearBackwardWeight,
                             kernels::Rotary, kernels::AttentionForward, kernels::AttentionBackward,
                             kernels::GeluForward, kernels::GeluBackward, kernels::GatedSiluForward,
                             kernels::GatedSiluBackward, kernels::Add, kernels::CrossEntropy, kernels::LossSum>;

/// Bytes that are zeroed before the first op.
struct ClearedRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

/// All calls of one compute task, in order.
struct BoundProgram {
  std::vector<ClearedRange> clears;
  std::vector<BoundOp> ops;
  std::vector<models::OpKind> kinds;  ///< of `ops`
  std::vector<ClearedRange> scratch;  ///< by op; plans for a GPU alone

  /// Calls the CPU kernels. Allocates nothing. \param profile  where the time of each op is added; may be null
  void run(kernels::Workers& workers, StepProfile* profile) const;
};

/// Resolves `task`, whose work is a ComputeWork. \throws Error{kInvalidInput} if an operand lies outside of its buffer
/// or a scratch is smaller than its kernel asks for: such a plan was made for another program.
BoundProgram bind_program(const planner::Plan& plan, const planner::Task& task, const Arenas& arenas);

}  // namespace zeroplan::runtime
