// What a training step knows only while it runs. Purpose: kernels read these numbers through a pointer, so that the
// schedule never branches on data. Main type: StepScalars, which lives in a planned buffer. Depends on nothing.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

namespace zeroplan::kernels {

/// Scalars of one optimizer step; all bytes are plain data and the same on every rank.
struct StepScalars {
  // Set by the trainer before the step.
  double learning_rate = 0;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;      ///< sgd
  std::int64_t nesterov = 0;  ///< sgd: 1 for Nesterov's form
  double min_coeff = 0.01;    ///< lamb: least and largest trust ratio
  double max_coeff = 10;
  double max_grad_norm = 0;  ///< 0: no clipping
  double loss_scale = 1;
  double inverse_loss_scale = 1;
  std::int64_t valid_tokens = 0;  ///< labels that count, over all ranks and micro-steps of this step
  double inverse_valid_tokens = 0;
  // Written by kernels during the step.
  double loss_sum = 0;   ///< sum of the row losses of this rank, not yet divided by valid_tokens
  double grad_norm = 0;  ///< of the whole gradient, after the loss scale was taken out
  double clip_factor = 1;
  std::int64_t found_inf = 0;       ///< 1: the gradient is not finite and the update changes nothing
  std::int64_t optimizer_step = 0;  ///< updates done, this one included once advance_optimizer_step ran
  double bias_correction1 = 1;      ///< 1 - beta1^optimizer_step
  double bias_correction2 = 1;
};
static_assert(std::is_trivially_copyable_v<StepScalars>);

/// Factor of the logits' gradient: loss_scale / valid_tokens.
inline double gradient_scale(const StepScalars& scalars) {
  return scalars.loss_scale * scalars.inverse_valid_tokens;
}

/// Sets grad_norm, found_inf and clip_factor = min(1, max_grad_norm / (grad_norm + 1e-6)) from the sums of squares of
/// the shards, which are added in the order given. Whoever passes the same sums in the same order gets the same bits.
void finish_norm(StepScalars& scalars, std::span<const double> ordered_sums_of_squares);

/// Unless found_inf: counts the update and sets the bias corrections for it. Call once per step, before the updates.
void advance_optimizer_step(StepScalars& scalars);

}  // namespace zeroplan::kernels
