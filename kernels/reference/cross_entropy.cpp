#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/storage.h"

namespace zeroplan::kernels::reference {

void cross_entropy(const CrossEntropy& args) {
  const std::size_t stride = stride_or(args.logits_stride, args.vocabulary);
  for (std::size_t r = 0; r < args.rows; ++r) {
    const std::size_t row = r * stride;
    const bool counted = args.labels[r] != kIgnoredLabel;
    double largest = load(args.dtype, args.logits, row);
    for (std::size_t c = 1; c < args.vocabulary; ++c)
      largest = std::max(largest, load(args.dtype, args.logits, row + c));
    double sum = 0;
    for (std::size_t c = 0; c < args.vocabulary; ++c) sum += std::exp(load(args.dtype, args.logits, row + c) - largest);
    const double log_sum = largest + std::log(sum);
    const std::size_t label = counted ? static_cast<std::size_t>(args.labels[r]) : 0;
    args.row_losses[r] = counted ? static_cast<float>(log_sum - load(args.dtype, args.logits, row + label)) : 0.0f;
    if (!args.backward) continue;
    for (std::size_t c = 0; c < args.vocabulary; ++c) {
      const double probability = std::exp(load(args.dtype, args.logits, row + c) - log_sum);
      const double gradient = (probability - (c == label ? 1 : 0)) * gradient_scale(*args.scalars);
      store(args.dtype, args.logits, row + c, counted ? gradient : 0);
    }
  }
}

void loss_sum(const LossSum& args) {
  for (std::size_t r = 0; r < args.rows; ++r) args.scalars->loss_sum += args.row_losses[r];
}

}  // namespace zeroplan::kernels::reference
