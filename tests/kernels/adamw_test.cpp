#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include "kernels/step_scalars.h"
#include "tests/kernels/update_state.h"

namespace zeroplan::kernels {
namespace {

using namespace testing;

StepScalars scalars_after(std::int64_t steps) {
  StepScalars scalars;
  scalars.learning_rate = 1e-2;
  scalars.weight_decay = 0.1;
  scalars.beta2 = 0.95;
  scalars.inverse_loss_scale = 0.5;
  scalars.clip_factor = 0.25;
  for (std::int64_t i = 0; i < steps; ++i) advance_optimizer_step(scalars);
  return scalars;
}

struct State : UpdateState {
  using UpdateState::UpdateState;
  AdamW args(const StepScalars& scalars, std::size_t begin, std::size_t end) {
    return {.count = end - begin,
            .parameter = parameter.data() + begin,
            .gradient = gradient.data() + begin,
            .first_moment = first.data() + begin,
            .second_moment = second.data() + begin,
            .scalars = &scalars};
  }
};

// The moments take at most 6 roundings of values below 10; the update lr / bc1 x m / denominator at most 16, of |m| /
// denominator.
TEST(AdamW, MatchesReference) {
  constexpr std::size_t kCount = 5001;
  const StepScalars scalars = scalars_after(3);
  for (bool decay : {false, true}) {
    State expected(kCount);
    AdamW plain = expected.args(scalars, 0, kCount);
    plain.decay = decay;
    reference::adamw(plain);
    const auto actual = same_for_all_workers([&](Workers& workers) {
      State state(kCount);
      AdamW args = state.args(scalars, 0, kCount);
      args.decay = decay;
      cpu::adamw(args, workers);
      return state.all();
    });
    expect_within(actual, widen(expected.all()), [&](std::size_t i) {
      const double denominator = std::sqrt(expected.second[i % kCount] / scalars.bias_correction2);
      const double update = scalars.learning_rate / scalars.bias_correction1 * 10 / denominator;
      return i < kCount ? kRoundoff * (4 * 5 + 24 * update) : kRoundoff * 60;
    });
  }
}

TEST(AdamW, AnyCutGivesTheSameBits) {
  constexpr std::size_t kCount = 301;
  const StepScalars scalars = scalars_after(1);
  Workers workers(2);
  State whole(kCount);
  cpu::adamw(whole.args(scalars, 0, kCount), workers);
  for (std::size_t cut : {1u, 7u, 8u, 150u, 299u}) {
    State parts(kCount);
    cpu::adamw(parts.args(scalars, 0, cut), workers);
    cpu::adamw(parts.args(scalars, cut, kCount), workers);
    EXPECT_TRUE(same_bits(whole.all(), parts.all())) << "cut at " << cut;
  }
}

TEST(AdamW, OverflowChangesNothing) {
  StepScalars scalars = scalars_after(2);
  scalars.found_inf = 1;
  advance_optimizer_step(scalars);
  EXPECT_EQ(scalars.optimizer_step, 2);
  Workers workers(1);
  State state(100);
  cpu::adamw(state.args(scalars, 0, 100), workers);
  EXPECT_TRUE(same_bits(state.all(), State(100).all()));
}

TEST(StepScalars, NormClipsAndFindsOverflow) {
  StepScalars scalars;
  scalars.max_grad_norm = 1;
  scalars.inverse_loss_scale = 0.5;
  const double sums[] = {36, 64};
  finish_norm(scalars, sums);
  EXPECT_EQ(scalars.grad_norm, 5);
  EXPECT_EQ(scalars.clip_factor, 1 / (5 + 1e-6));
  EXPECT_EQ(scalars.found_inf, 0);
  const double small[] = {0.04};
  finish_norm(scalars, small);
  EXPECT_EQ(scalars.clip_factor, 1);
  const double bad[] = {1, std::numeric_limits<double>::infinity()};
  finish_norm(scalars, bad);
  EXPECT_EQ(scalars.found_inf, 1);
  EXPECT_EQ(scalars.clip_factor, 1);
}

}  // namespace
}  // namespace zeroplan::kernels
