#include <cmath>

#include "tests/cuda/device_testing.h"

namespace zeroplan::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::finish;
using testing::gpu;
using testing::kRoundoff;
using testing::Operand;

StepScalars some_scalars() {
  StepScalars s;
  s.learning_rate = 1e-2;
  s.weight_decay = 0.1;
  s.inverse_loss_scale = 0.5;
  s.clip_factor = 0.8;
  s.optimizer_step = 3;
  s.bias_correction1 = 1 - std::pow(s.beta1, 3);
  s.bias_correction2 = 1 - std::pow(s.beta2, 3);
  s.nesterov = 1;
  return s;
}

std::vector<float> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// An optimizer's operands on both sides; the reference works on fp32 state in place.
struct State {
  State(DType gradient_type, std::size_t n, std::size_t offset)
      : gradient(Operand::random(gradient_type, n, 2, 1, offset)),
        parameter(Operand::random(DType::kFp32, n, 1, 1, offset)),
        first(Operand::random(DType::kFp32, n, 3, 1, offset)),
        second(Operand::random(DType::kFp32, n, 4, 1, offset)),
        copy(Operand::output(DType::kBf16, n, offset)) {
    for (double& value : second.host()) value = std::abs(value) + 0.01;
    second = Operand(DType::kFp32, second.host(), offset);
    parameters = narrowed(parameter.host());
    firsts = narrowed(first.host());
    seconds = narrowed(second.host());
    copies.assign(n, 0);
    gradients = gradient.host();
  }
  /// A rule of some ten operations on numbers of about 1 (gradients and moments up to 5): each may lose a unit.
  void expect_updated(bool with_second) {
    finish();
    parameter.host().assign(parameters.begin(), parameters.end());
    first.host().assign(firsts.begin(), firsts.end());
    second.host().assign(seconds.begin(), seconds.end());
    parameter.expect_relative(4 * kRoundoff, "parameter", 32 * kRoundoff);
    first.expect_relative(4 * kRoundoff, "first moment", 32 * kRoundoff);
    if (with_second) second.expect_relative(8 * kRoundoff, "second moment", 8 * kRoundoff);
    copy.host() = parameter.download();
    copy.expect_relative(0, "copy");
  }
  Operand gradient, parameter, first, second, copy;
  std::vector<double> gradients, copies;
  std::vector<float> parameters, firsts, seconds;
};

class CudaUpdate : public testing::EachType {};
ZP_EACH_TYPE(CudaUpdate);

struct Extent {
  std::size_t count, offset;
};
constexpr Extent kExtents[] = {{1, 0}, {13, 0}, {20000, 0}, {20001, 1}};

TEST_P(CudaUpdate, AdamW) {
  ZP_NEEDS_DEVICE();
  for (const auto [n, offset] : kExtents) {
    for (const bool decay : {true, false}) {
      State state(GetParam(), n, offset);
      const StepScalars scalars = some_scalars();
      const DeviceArray<StepScalars> device_scalars({scalars});
      AdamW args{.gradient_dtype = DType::kFp64,
                 .count = n,
                 .decay = decay,
                 .parameter = state.parameters.data(),
                 .gradient = state.gradients.data(),
                 .first_moment = state.firsts.data(),
                 .second_moment = state.seconds.data(),
                 .scalars = &scalars};
      reference::adamw(args);
      args = {.gradient_dtype = GetParam(),
              .count = n,
              .decay = decay,
              .parameter = static_cast<float*>(state.parameter.device()),
              .gradient = state.gradient.device(),
              .first_moment = static_cast<float*>(state.first.device()),
              .second_moment = static_cast<float*>(state.second.device()),
              .copy_dtype = DType::kBf16,
              .parameter_copy = state.copy.device(),
              .scalars = device_scalars.get()};
      enqueue(args, gpu().launch());
      state.expect_updated(true);
    }
  }
}

/// Whole, and cut at an odd place: the same bits.
TEST(CudaUpdateRange, MayBeCutAnywhere) {
  ZP_NEEDS_DEVICE();
  constexpr std::size_t kCount = 10000;
  const DeviceArray<StepScalars> scalars({some_scalars()});
  std::vector<std::vector<std::byte>> results;
  for (const std::size_t cut : {std::size_t{0}, std::size_t{4097}}) {
    State state(DType::kBf16, kCount, 0);
    for (const auto& [begin, end] : {std::pair(std::size_t{0}, cut), std::pair(cut, kCount)}) {
      enqueue(AdamW{.gradient_dtype = DType::kBf16,
                    .count = end - begin,
                    .parameter = static_cast<float*>(state.parameter.device_at(begin)),
                    .gradient = state.gradient.device_at(begin),
                    .first_moment = static_cast<float*>(state.first.device_at(begin)),
                    .second_moment = static_cast<float*>(state.second.device_at(begin)),
                    .copy_dtype = DType::kBf16,
                    .parameter_copy = state.copy.device_at(begin),
                    .scalars = scalars.get()},
              gpu().launch());
    }
    finish();
    results.push_back(state.parameter.bytes());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(CudaUpdate, ElementwiseOptimizers) {
  ZP_NEEDS_DEVICE();
  struct Case {
    ElementwiseOptimizer optimizer;
    void (*reference)(const OptimizerStep&);
  };
  for (const Case c :
       {Case{ElementwiseOptimizer::kAdam, reference::adam}, Case{ElementwiseOptimizer::kSgd, reference::sgd},
        Case{ElementwiseOptimizer::kLion, reference::lion}, Case{ElementwiseOptimizer::kAdagrad, reference::adagrad}}) {
    const bool with_second = c.optimizer == ElementwiseOptimizer::kAdam;
    for (const auto [n, offset] : kExtents) {
      State state(GetParam(), n, offset);
      if (c.optimizer == ElementwiseOptimizer::kAdagrad) {
        state.first = Operand(DType::kFp32, state.second.host(), offset);
        state.firsts = narrowed(state.first.host());
      }
      const StepScalars scalars = some_scalars();
      const DeviceArray<StepScalars> device_scalars({scalars});
      c.reference({.gradient_dtype = DType::kFp64,
                   .count = n,
                   .parameter = state.parameters.data(),
                   .gradient = state.gradients.data(),
                   .first_moment = state.firsts.data(),
                   .second_moment = with_second ? state.seconds.data() : nullptr,
                   .scalars = &scalars});
      enqueue(c.optimizer,
              {.gradient_dtype = GetParam(),
               .count = n,
               .parameter = static_cast<float*>(state.parameter.device()),
               .gradient = state.gradient.device(),
               .first_moment = static_cast<float*>(state.first.device()),
               .second_moment = with_second ? static_cast<float*>(state.second.device()) : nullptr,
               .copy_dtype = DType::kBf16,
               .parameter_copy = state.copy.device(),
               .scalars = device_scalars.get()},
              gpu().launch());
      state.expect_updated(with_second);
    }
  }
}

TEST_P(CudaUpdate, Lamb) {
  ZP_NEEDS_DEVICE();
  for (const auto [n, offset] : kExtents) {
    State state(GetParam(), n, offset);
    const StepScalars scalars = some_scalars();
    const DeviceArray<StepScalars> device_scalars({scalars});
    const DeviceArray<LambSums> sums({LambSums{}});
    const DeviceArray<double> ratio({0.0});
    reference::lamb_moments(
        {DType::kFp64, n, state.gradients.data(), state.firsts.data(), state.seconds.data(), &scalars});
    const LambSums expected =
        reference::lamb_norms({n, state.parameters.data(), state.firsts.data(), state.seconds.data(), &scalars});
    const double expected_ratio = lamb_ratio(scalars, expected);
    reference::lamb_update({.count = n,
                            .parameter = state.parameters.data(),
                            .first_moment = state.firsts.data(),
                            .second_moment = state.seconds.data(),
                            .ratio = &expected_ratio,
                            .scalars = &scalars});
    auto* parameter = static_cast<float*>(state.parameter.device());
    auto* first = static_cast<float*>(state.first.device());
    auto* second = static_cast<float*>(state.second.device());
    enqueue(LambMoments{GetParam(), n, state.gradient.device(), first, second, device_scalars.get()}, gpu().launch());
    enqueue_lamb_norms({n, parameter, first, second, device_scalars.get()}, sums.get(), false, gpu().launch());
    enqueue_lamb_ratios(device_scalars.get(), sums.get(), 1, 1, ratio.get(), gpu().launch());
    enqueue(
        LambUpdate{n, parameter, first, second, ratio.get(), DType::kBf16, state.copy.device(), device_scalars.get()},
        gpu().launch());
    finish();
    const LambSums actual = sums.download()[0];
    // Each direction is right to some units of fp32; sums of their squares in double keep that.
    EXPECT_NEAR(actual.parameter, expected.parameter, 1e-12 * expected.parameter);
    EXPECT_NEAR(actual.direction, expected.direction, 32 * kRoundoff * expected.direction);
    EXPECT_NEAR(ratio.download()[0], expected_ratio, 16 * kRoundoff * expected_ratio);
    state.parameter.host().assign(state.parameters.begin(), state.parameters.end());
    state.parameter.expect_relative(4 * kRoundoff, "lamb parameter", 64 * kRoundoff);
  }
}

TEST(CudaUpdateRange, NothingChangesWhenInfWasFound) {
  ZP_NEEDS_DEVICE();
  State state(DType::kFp32, 100, 0);
  StepScalars scalars = some_scalars();
  scalars.found_inf = 1;
  const DeviceArray<StepScalars> device_scalars({scalars});
  const auto before = state.parameter.bytes();
  enqueue(AdamW{.count = 100,
                .parameter = static_cast<float*>(state.parameter.device()),
                .gradient = state.gradient.device(),
                .first_moment = static_cast<float*>(state.first.device()),
                .second_moment = static_cast<float*>(state.second.device()),
                .scalars = device_scalars.get()},
          gpu().launch());
  finish();
  EXPECT_EQ(state.parameter.bytes(), before);
}

TEST_P(CudaUpdate, SumOfSquares) {
  ZP_NEEDS_DEVICE();
  for (const std::size_t n : {std::size_t{1}, std::size_t{2049}, std::size_t{5000000}}) {
    for (const std::size_t offset : {0u, 1u}) {
      Operand x = Operand::random(GetParam(), n, 1, 1, offset);
      const double expected = reference::sum_of_squares({DType::kFp64, n, x.reference()});
      const DeviceArray<double> result({5.0});
      const SumOfSquares args{GetParam(), n, x.device()};
      enqueue_sum_of_squares(args, result.get(), false, gpu().launch());
      finish();
      EXPECT_NEAR(result.download()[0], expected, 1e-12 * expected);
      enqueue_sum_of_squares(args, result.get(), true, gpu().launch());
      finish();
      EXPECT_NEAR(result.download()[0], 2 * expected, 2e-12 * expected);
    }
  }
}

TEST(CudaNormOfGradients, MatchesTheHosts) {
  ZP_NEEDS_DEVICE();
  for (const double bad : {1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    StepScalars scalars = some_scalars();
    scalars.max_grad_norm = 1;
    const DeviceArray<StepScalars> device({scalars});
    const DeviceArray<double> partials({4.0, -1, bad, -1, 3.0});
    enqueue_finish_norm(device.get(), partials.get(), 2, 3, gpu().launch());
    finish();
    const std::vector<double> sums{4.0, bad, 3.0};
    finish_norm(scalars, sums);
    advance_optimizer_step(scalars);
    const StepScalars actual = device.download()[0];
    EXPECT_EQ(actual.found_inf, scalars.found_inf);
    EXPECT_EQ(actual.optimizer_step, scalars.optimizer_step);
    EXPECT_EQ(actual.clip_factor, scalars.clip_factor);
    EXPECT_NEAR(actual.bias_correction1, scalars.bias_correction1, 1e-15);
    EXPECT_NEAR(actual.bias_correction2, scalars.bias_correction2, 1e-15);
    if (std::isfinite(bad)) {
      EXPECT_EQ(actual.grad_norm, scalars.grad_norm);
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda
