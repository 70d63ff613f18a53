#include "kernels/optimizers.h"

#include <gtest/gtest.h>

#include "tests/kernels/update_state.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

StepScalars scalars_after(std::int64_t steps) {
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  scalars.weight_decay = 0.1;
  scalars.beta2 = 0.95;
  scalars.epsilon = 1e-3;  // bounds the quotients of elements whose moments nearly vanish
  scalars.inverse_loss_scale = 0.5;
  scalars.clip_factor = 0.25;
  for (std::int64_t i = 0; i < steps; ++i) advance_optimizer_step(scalars);
  return scalars;
}

struct State : UpdateState {
  using UpdateState::UpdateState;
  /// \param sums_squares  the first moment is one of squares
  OptimizerStep args(const StepScalars& scalars, std::size_t begin, std::size_t end, bool sums_squares) {
    if (sums_squares) first = second;
    return {.count = end - begin,
            .parameter = parameter.data() + begin,
            .gradient = gradient.data() + begin,
            .first_moment = first.data() + begin,
            .second_moment = second.data() + begin,
            .scalars = &scalars};
  }
};

struct Optimizer {
  const char* name;
  void (*reference)(const OptimizerStep&);
  void (*cpu)(const OptimizerStep&, Workers&);
  bool sums_squares = false;
  bool has_second = false;
  std::int64_t nesterov = 0;
};

std::ostream& operator<<(std::ostream& out, const Optimizer& optimizer) {
  return out << optimizer.name;
}

class Optimizers : public ::testing::TestWithParam<Optimizer> {
 protected:
  static StepScalars scalars(std::int64_t steps) {
    StepScalars result = scalars_after(steps);
    result.nesterov = GetParam().nesterov;
    return result;
  }
  static OptimizerStep args(State& state, const StepScalars& scalars, std::size_t begin, std::size_t end) {
    OptimizerStep step = state.args(scalars, begin, end, GetParam().sums_squares);
    if (!GetParam().has_second) step.second_moment = nullptr;
    return step;
  }
};

// All values are below 8 and each result takes at most 12 roundings; a quotient divides by at least epsilon and is
// scaled by lr / bias_correction1 <= 0.04: 12 x (8 + 0.04 x 8 / 1e-3).
TEST_P(Optimizers, MatchTheirReference) {
  constexpr std::size_t kCount = 5001;
  const StepScalars s = scalars(3);
  State expected(kCount);
  GetParam().reference(args(expected, s, 0, kCount));
  EXPECT_FALSE(same_bits(expected.parameter, State(kCount).parameter));
  const auto actual = same_for_all_workers([&](Workers& workers) {
    State state(kCount);
    GetParam().cpu(args(state, s, 0, kCount), workers);
    return state.all();
  });
  expect_within(actual, widen(expected.all()), [&](std::size_t i) {
    const double second = GetParam().has_second ? expected.second[i % kCount] : expected.first[i % kCount];
    const double denominator = std::sqrt(std::abs(second)) + s.epsilon;
    return 12 * kRoundoff * (i < kCount ? 8 + 0.04 * 8 / denominator : 8);
  });
}

TEST_P(Optimizers, AnyCutGivesTheSameBits) {
  constexpr std::size_t kCount = 301;
  const StepScalars s = scalars(1);
  Workers workers(2);
  State whole(kCount);
  GetParam().cpu(args(whole, s, 0, kCount), workers);
  for (const std::size_t cut : {1u, 7u, 8u, 150u, 299u}) {
    State parts(kCount);
    GetParam().cpu(args(parts, s, 0, cut), workers);
    // The second half's moments are set up again: they were not touched.
    State rest(kCount);
    GetParam().cpu(args(rest, s, cut, kCount), workers);
    std::copy(rest.parameter.begin() + static_cast<std::ptrdiff_t>(cut), rest.parameter.end(),
              parts.parameter.begin() + static_cast<std::ptrdiff_t>(cut));
    EXPECT_TRUE(same_bits(whole.parameter, parts.parameter)) << "cut at " << cut;
  }
}

TEST_P(Optimizers, OverflowChangesNothing) {
  StepScalars s = scalars(2);
  s.found_inf = 1;
  advance_optimizer_step(s);
  EXPECT_EQ(s.optimizer_step, 2);
  Workers workers(1);
  State state(100);
  const OptimizerStep step = args(state, s, 0, 100);
  const auto before = state.all();
  GetParam().cpu(step, workers);
  EXPECT_TRUE(same_bits(state.all(), before));
  GetParam().reference(step);
  EXPECT_TRUE(same_bits(state.all(), before));
}

TEST_P(Optimizers, ZerosStayZero) {
  const StepScalars s = scalars(1);
  Workers workers(1);
  std::vector<float> p(40), g(40), m(40), v(40);
  OptimizerStep step{.count = 40, .parameter = p.data(), .gradient = g.data(), .first_moment = m.data(), .scalars = &s};
  if (GetParam().has_second) step.second_moment = v.data();
  GetParam().cpu(step, workers);
  for (const auto* values : {&p, &m, &v}) EXPECT_EQ(*values, std::vector<float>(40));
}

TEST_P(Optimizers, RoundTheCopyOfTheParameter) {
  const StepScalars s = scalars(1);
  Workers workers(1);
  State state(33);
  OptimizerStep step = args(state, s, 0, 33);
  std::vector<std::uint16_t> copy(33);
  step.parameter_copy = copy.data();
  GetParam().cpu(step, workers);
  for (std::size_t i = 0; i < copy.size(); ++i) {
    const float rounded = std::bit_cast<float>(static_cast<std::uint32_t>(copy[i]) << 16);
    EXPECT_NEAR(rounded, state.parameter[i], std::abs(state.parameter[i]) / 256);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Optimizers,
    ::testing::Values(
        Optimizer{.name = "adam", .reference = reference::adam, .cpu = cpu::adam, .has_second = true},
        Optimizer{.name = "sgd", .reference = reference::sgd, .cpu = cpu::sgd},
        Optimizer{.name = "nesterov", .reference = reference::sgd, .cpu = cpu::sgd, .nesterov = 1},
        Optimizer{.name = "lion", .reference = reference::lion, .cpu = cpu::lion},
        Optimizer{.name = "adagrad", .reference = reference::adagrad, .cpu = cpu::adagrad, .sums_squares = true}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zeroplan::kernels
