#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cpp"
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "kernels/cross_entropy.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroplan::kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
void rows_as(const CrossEntropy& args, IndexRange rows) {
  const F32 d;
  const std::size_t stride = stride_or(args.logits_stride, args.vocabulary);
  const double factor = args.backward ? gradient_scale(*args.scalars) : 0;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    T* logits = static_cast<T*>(args.logits) + r * stride;
    if (args.labels[r] == kIgnoredLabel) {
      args.row_losses[r] = 0;
      if (args.backward) {
        for_vectors(0, args.vocabulary,
                    [&](std::size_t c, auto size) HWY_ATTR { store(hn::Zero(d), logits + c, size); });
      }
      continue;
    }
    const VF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
    VF largest_lanes = lowest;
    for_vectors(0, args.vocabulary, [&](std::size_t c, auto size) HWY_ATTR {
      largest_lanes = hn::Max(largest_lanes, keep(load(logits + c, size), lowest, size));
    });
    const VF largest = hn::Set(d, max_of_lanes(largest_lanes));
    // A sum over lanes, then over them: each lane adds vocabulary / lanes terms. NaN and infinite logits end in the sum
    // as NaN.
    VF sum_lanes = hn::Zero(d);
    for_vectors(0, args.vocabulary, [&](std::size_t c, auto size) HWY_ATTR {
      sum_lanes = hn::Add(sum_lanes, keep(exponential(hn::Sub(load(logits + c, size), largest)), hn::Zero(d), size));
    });
    const float sum = sum_of_lanes(sum_lanes);
    const std::size_t label = static_cast<std::size_t>(args.labels[r]);
    const double label_logit = to_float(logits[label]);
    args.row_losses[r] = static_cast<float>(hn::GetLane(largest) + std::log(static_cast<double>(sum)) - label_logit);
    if (!args.backward) continue;
    const VF scale = hn::Set(d, static_cast<float>(factor / sum));
    const float label_probability = std::exp(static_cast<float>(label_logit) - hn::GetLane(largest)) / sum;
    for_vectors(0, args.vocabulary, [&](std::size_t c, auto size) HWY_ATTR {
      store(hn::Mul(exponential(hn::Sub(load(logits + c, size), largest)), scale), logits + c, size);
    });
    const float label_gradient = static_cast<float>((static_cast<double>(label_probability) - 1) * factor);
    store(hn::Set(d, label_gradient), logits + label, Part{1});
  }
}

void cross_entropy_rows(const CrossEntropy& args, IndexRange rows) {
  with_storage(args.dtype, [&]<class T>(T) { rows_as<T>(args, rows); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroplan::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroplan::kernels::cpu {
namespace {

HWY_EXPORT(cross_entropy_rows);

}  // namespace

void cross_entropy(const CrossEntropy& args, Workers& workers) {
  require_storage(args.dtype);
  ZP_CHECK(args.vocabulary > 0);
  workers.run_ranges(args.rows, 1, [&](IndexRange rows) { HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(args, rows); });
}

void loss_sum(const LossSum& args, Workers&) {
  for (std::size_t r = 0; r < args.rows; ++r) args.scalars->loss_sum += static_cast<double>(args.row_losses[r]);
}

}  // namespace zeroplan::kernels::cpu
#endif
