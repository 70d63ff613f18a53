#include "kernels/lamb.h"

#include <gtest/gtest.h>

#include "tests/kernels/update_state.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

constexpr std::size_t kCount = 5001;

StepScalars scalars_of_step(std::int64_t steps) {
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  scalars.weight_decay = 0.1;
  scalars.epsilon = 1e-3;  // bounds the quotients of elements whose moments nearly vanish
  scalars.inverse_loss_scale = 0.5;
  for (std::int64_t i = 0; i < steps; ++i) advance_optimizer_step(scalars);
  return scalars;
}

struct State : UpdateState {
  explicit State(std::size_t n = kCount) : UpdateState(n) {}
  LambMoments moments(const StepScalars& s) {
    return {.count = parameter.size(),
            .gradient = gradient.data(),
            .first_moment = first.data(),
            .second_moment = second.data(),
            .scalars = &s};
  }
  LambNorms norms(const StepScalars& s, std::size_t begin, std::size_t end) const {
    return {.count = end - begin,
            .parameter = parameter.data() + begin,
            .first_moment = first.data() + begin,
            .second_moment = second.data() + begin,
            .scalars = &s};
  }
  LambUpdate update(const StepScalars& s, const double& ratio) {
    return {.count = parameter.size(),
            .parameter = parameter.data(),
            .first_moment = first.data(),
            .second_moment = second.data(),
            .ratio = &ratio,
            .scalars = &s};
  }
};

// Moments: 4 roundings of values below 8. Parameters: 6 of p, |p| < 8, and of the step, lr sqrt(bc2) / bc1 x 2 < 0.02
// times |m| / (sqrt(v) + epsilon).
TEST(Lamb, MomentsAndUpdateMatchTheirReference) {
  const StepScalars s = scalars_of_step(3);
  const double ratio = 2;
  State expected;
  reference::lamb_moments(expected.moments(s));
  reference::lamb_update(expected.update(s, ratio));
  const auto actual = same_for_all_workers([&](Workers& workers) {
    State state;
    cpu::lamb_moments(state.moments(s), workers);
    cpu::lamb_update(state.update(s, ratio), workers);
    return state.all();
  });
  expect_within(actual, widen(expected.all()), [&](std::size_t i) {
    const double denominator = std::sqrt(expected.second[i % kCount]) + s.epsilon;
    return kRoundoff * (i < kCount ? 6 * 8 + 12 * 0.02 * 8 / denominator : 4 * 8);
  });
}

/// Sums in double of n terms in any order differ by at most 2 n unit roundoffs, relative, as no term is negative.
double order_bound(const LambSums& sums, double LambSums::*which) {
  return 2.0 * kCount * 0x1p-53 * sums.*which;
}

// Each u is off by at most 8 roundings of fp32 of the larger of its two terms, each square by twice that.
TEST(Lamb, NormsMatchTheirReference) {
  const StepScalars s = scalars_of_step(3);
  const State state;
  const LambSums expected = reference::lamb_norms(state.norms(s, 0, kCount));
  Workers workers(2);
  const LambSums actual = cpu::lamb_norms(state.norms(s, 0, kCount), workers);
  EXPECT_NEAR(actual.parameter, expected.parameter, order_bound(expected, &LambSums::parameter));
  EXPECT_NEAR(actual.direction, expected.direction, 16 * kRoundoff * expected.direction);
}

TEST(Lamb, NormsHaveTheSameBitsForAnyNumberOfWorkers) {
  const StepScalars s = scalars_of_step(3);
  const State state(100'003);
  Workers one(1);
  Workers three(3);
  const LambSums a = cpu::lamb_norms(state.norms(s, 0, 100'003), one);
  const LambSums b = cpu::lamb_norms(state.norms(s, 0, 100'003), three);
  EXPECT_EQ(a.parameter, b.parameter);
  EXPECT_EQ(a.direction, b.direction);
}

TEST(Lamb, NormsOfPartsAddUpToThatOfTheWhole) {
  const StepScalars s = scalars_of_step(3);
  const State state;
  Workers workers(1);
  const LambSums whole = cpu::lamb_norms(state.norms(s, 0, kCount), workers);
  for (const std::size_t cut : {1u, 64u, 2500u, 4999u}) {
    const LambSums a = cpu::lamb_norms(state.norms(s, 0, cut), workers);
    const LambSums b = cpu::lamb_norms(state.norms(s, cut, kCount), workers);
    EXPECT_NEAR(a.parameter + b.parameter, whole.parameter, order_bound(whole, &LambSums::parameter));
    EXPECT_NEAR(a.direction + b.direction, whole.direction, order_bound(whole, &LambSums::direction));
  }
}

TEST(Lamb, RatioIsClampedAndOneWhereANormVanishes) {
  const StepScalars s;  // 0.01 to 10
  EXPECT_DOUBLE_EQ(lamb_ratio(s, {.parameter = 36, .direction = 9}), 2);
  EXPECT_EQ(lamb_ratio(s, {.parameter = 1e6, .direction = 1}), 10);
  EXPECT_EQ(lamb_ratio(s, {.parameter = 1, .direction = 1e6}), 0.01);
  EXPECT_EQ(lamb_ratio(s, {.parameter = 0, .direction = 1}), 1);
  EXPECT_EQ(lamb_ratio(s, {.parameter = 1, .direction = 0}), 1);
}

TEST(Lamb, OverflowChangesNothing) {
  StepScalars s = scalars_of_step(2);
  s.found_inf = 1;
  Workers workers(1);
  State state;
  const double ratio = 1;
  cpu::lamb_moments(state.moments(s), workers);
  cpu::lamb_update(state.update(s, ratio), workers);
  reference::lamb_moments(state.moments(s));
  reference::lamb_update(state.update(s, ratio));
  EXPECT_TRUE(same_bits(state.all(), State().all()));
}

}  // namespace
}  // namespace zeroplan::kernels
