#include "runtime/optimizer/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

std::unique_ptr<Schedule> schedule(const std::string& name, std::map<std::string, std::string> arguments,
                                   double peak = 1e-3) {
  return make_schedule(
      {.name = name, .peak_rate = peak, .warmup_steps = 0, .total_steps = 0, .arguments = std::move(arguments)});
}

TEST(Schedule, LinearAndCosineAsInTransformers) {
  const ScheduleSettings settings{
      .name = "linear", .peak_rate = 1, .warmup_steps = 2, .total_steps = 6, .arguments = {}};
  const auto linear = make_schedule(settings);
  const double expected[] = {0, 0.5, 1, 0.75, 0.5, 0.25, 0, 0};
  for (std::uint64_t n = 0; n < 8; ++n) EXPECT_DOUBLE_EQ(linear->rate(n), expected[n]) << n;
  ScheduleSettings cosine = settings;
  cosine.name = "cosine";
  EXPECT_DOUBLE_EQ(make_schedule(cosine)->rate(2), 1);
  EXPECT_NEAR(make_schedule(cosine)->rate(4), 0.5, 1e-15);
}

TEST(Schedule, WarmupLrIsLogarithmicFromTheSecondUpdate) {
  const auto s =
      schedule("WarmupLR", {{"warmup_min_lr", "0.001"}, {"warmup_max_lr", "0.1"}, {"warmup_num_steps", "10"}});
  EXPECT_DOUBLE_EQ(s->rate(0), 0.001);
  EXPECT_DOUBLE_EQ(s->rate(1), 0.001);
  EXPECT_DOUBLE_EQ(s->rate(5), 0.001 + 0.099 * std::log(5) / std::log(10));
  EXPECT_DOUBLE_EQ(s->rate(11), 0.1);
}

TEST(Schedule, WarmupDecayEndsAtTheMinimum) {
  const auto s = schedule(
      "WarmupDecayLR",
      {{"warmup_max_lr", "1"}, {"warmup_num_steps", "2"}, {"total_num_steps", "10"}, {"warmup_type", "linear"}});
  EXPECT_DOUBLE_EQ(s->rate(2), 0.5);
  EXPECT_DOUBLE_EQ(s->rate(3), 1);
  EXPECT_DOUBLE_EQ(s->rate(7), 0.5);
  EXPECT_DOUBLE_EQ(s->rate(11), 0);
  EXPECT_DOUBLE_EQ(s->rate(100), 0);
}

TEST(Schedule, OneCycleMovesRateAndMomentumOppositely) {
  const auto s = schedule("OneCycle", {{"cycle_min_lr", "0.1"},
                                       {"cycle_max_lr", "1.1"},
                                       {"cycle_first_step_size", "4"},
                                       {"decay_step_size", "2"},
                                       {"decay_lr_rate", "1"}});
  EXPECT_DOUBLE_EQ(s->rate(0), 0.1);
  EXPECT_NEAR(s->rate(2), 0.6, 1e-12);  // t = 1: halfway up
  EXPECT_NEAR(s->rate(4), 1.1, 1e-12);
  EXPECT_NEAR(s->momenta(4)->beta1, 0.8, 1e-12);
  EXPECT_DOUBLE_EQ(s->momenta(4)->beta2, 0.99);
  EXPECT_NEAR(s->rate(10), 0.1 / (1 + 1), 1e-12);  // t = 9: one decay interval after the cycle
}

TEST(Schedule, RangeTestGrowsLinearlyOrInStairs) {
  const auto smooth = schedule("LRRangeTest", {{"lr_range_test_step_size", "4"}});
  EXPECT_DOUBLE_EQ(smooth->rate(2), 1e-3 * 1.5);
  const auto stairs = schedule("LRRangeTest", {{"lr_range_test_step_size", "4"}, {"lr_range_test_staircase", "true"}});
  EXPECT_DOUBLE_EQ(stairs->rate(3), 1e-3);
  EXPECT_DOUBLE_EQ(stairs->rate(4), 2e-3);
}

TEST(Schedule, RefusesUnknownNamesAndArguments) {
  EXPECT_THROW(schedule("warmuplr", {}), Error);
  EXPECT_THROW(schedule("constant", {{"warmup_num_steps", "3"}}), Error);
  EXPECT_THROW(schedule("WarmupLR", {{"warmup_num_steps", "0"}}), Error);
  EXPECT_THROW(schedule("WarmupDecayLR", {}), Error);
  EXPECT_THROW(schedule("OneCycle", {{"cycle_min_lr", "x"}, {"cycle_max_lr", "1"}}), Error);
}

}  // namespace
}  // namespace zeroplan::runtime
