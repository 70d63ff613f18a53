// The optimizers' kernel calls over pieces of states, for the CPU and for a device. Main types: TensorPart. Depends on
// state_pieces and kernels.
#pragma once

#include "kernels/lamb.h"
#include "kernels/step_scalars.h"
#include "models/core/error.h"
#include "runtime/state_pieces.h"

namespace zeroplan::runtime {

/// Parameters of a piece as the kernels update them: fp32, with a rounded copy in mixed precision.
template <class Arguments>
void set_parameters(Arguments& call, const StatePiece& p) {
  if (p.master != nullptr) {
    call.parameter = p.master;
    call.copy_dtype = p.parameter_dtype;
    call.parameter_copy = p.parameters;
  } else {
    call.parameter = reinterpret_cast<float*>(p.parameters);
  }
}

/// Gradient and moments of an elementwise optimizer.
template <class Arguments>
Arguments elementwise_call(const StatePiece& p, const kernels::StepScalars* scalars, std::size_t moments) {
  ZP_CHECK(p.moments.size() == moments);
  Arguments call;
  call.gradient_dtype = p.gradient_dtype;
  call.count = p.count;
  call.gradient = p.gradients;
  call.first_moment = reinterpret_cast<float*>(p.moments[0]);
  if (moments > 1) call.second_moment = reinterpret_cast<float*>(p.moments[1]);
  call.scalars = scalars;
  set_parameters(call, p);
  return call;
}

/// A piece's part of one tensor.
struct TensorPart {
  std::size_t parameter = 0;  ///< index into Model::parameters
  std::size_t skipped = 0;    ///< elements of the piece before it
  std::size_t count = 0;
};

/// The padding between tensors belongs to none.
std::vector<TensorPart> tensor_parts(const planner::Plan& plan, std::uint32_t group, const StatePiece& piece);

/// LAMB's last pass over a tensor's part. \param ratios  trust ratios, by parameter of the model
kernels::LambUpdate lamb_update_call(const StatePiece& piece, const TensorPart& part, const double* ratios,
                                     const kernels::StepScalars* scalars);

}  // namespace zeroplan::runtime
