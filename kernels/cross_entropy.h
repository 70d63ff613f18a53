// Softmax cross-entropy on rows of logits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/step_scalars.h"
#include "kernels/workers.h"
#include "models/core/dtype.h"

namespace zeroplan::kernels {

/// A label of this value is not counted: its loss and gradient are zero.
constexpr std::int32_t kIgnoredLabel = -100;

/// row_losses[r] = log(sum(exp(logits[r]))) - logits[r][label]; then, if `backward`, logits[r] becomes its gradient
/// (softmax - onehot) x gradient_scale(*scalars). The caller has checked the labels: -100 or 0 <= label < vocabulary.
struct CrossEntropy {
  DType dtype = DType::kFp32;
  std::size_t rows = 0;
  std::size_t vocabulary = 0;
  const std::int32_t* labels = nullptr;  ///< [rows]
  void* logits = nullptr;                ///< [rows, vocabulary]
  std::size_t logits_stride = 0;
  float* row_losses = nullptr;           ///< [rows]
  const StepScalars* scalars = nullptr;  ///< read if `backward`
  bool backward = true;
};

/// Adds the row losses to scalars->loss_sum, in row order, in double.
struct LossSum {
  std::size_t rows = 0;
  const float* row_losses = nullptr;
  StepScalars* scalars = nullptr;
};

namespace reference {
void cross_entropy(const CrossEntropy& args);
void loss_sum(const LossSum& args);
}  // namespace reference

namespace cpu {
void cross_entropy(const CrossEntropy& args, Workers& workers);
void loss_sum(const LossSum& args, Workers& workers);
}  // namespace cpu

}  // namespace zeroplan::kernels
