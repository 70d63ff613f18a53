#include "runtime/optimizer/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

/// The rule written down again from its definition, as a fold over the whole history: nothing but the history of
/// overflows is kept.
struct Replay {
  double scale;
  bool is_stuck = false;
};

Replay replay(const LossScaleSettings& settings, const std::vector<bool>& overflows) {
  Replay result{std::ldexp(1.0, static_cast<int>(settings.initial_power))};
  std::uint64_t free_overflows = settings.hysteresis - 1;
  std::uint64_t good_in_a_row = 0;
  for (const bool overflowed : overflows) {
    if (overflowed) {
      good_in_a_row = 0;
      if (free_overflows > 0) {
        --free_overflows;
        continue;
      }
      if (result.scale == settings.least) {
        result.is_stuck = true;
        return result;
      }
      result.scale = std::max(result.scale / 2, settings.least);
      continue;
    }
    ++good_in_a_row;
    if (settings.refills_with_each_good) free_overflows = settings.hysteresis - 1;
    // k counts the good updates since the last overflow, this one not included; before any overflow the place of the
    // last one is -1, which gives the same count.
    const std::uint64_t k = good_in_a_row - 1;
    if (k > 0 && k % settings.window == 0) {
      free_overflows = settings.hysteresis - 1;
      result.scale *= 2;
    }
  }
  return result;
}

TEST(LossScaler, FollowsTheRuleOverRandomSequences) {
  std::mt19937 generator(7);
  const auto between = [&](std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(generator);
  };
  std::uint64_t stuck = 0, grown = 0;
  for (int sequence = 0; sequence < 4000; ++sequence) {
    LossScaleSettings settings;
    settings.initial_power = between(0, 20);
    settings.window = between(1, 6);
    settings.hysteresis = between(1, 4);
    settings.least = between(0, 3) == 0 ? 0.3 : std::ldexp(1.0, static_cast<int>(between(0, 8)));
    settings.refills_with_each_good = between(0, 1) == 1;
    const std::uint64_t percent = between(0, 70);
    LossScaler scaler(settings);
    std::vector<bool> overflows;
    for (int step = 0; step < 60; ++step) {
      overflows.push_back(between(1, 100) <= percent);
      const double before = scaler.scale();
      const bool goes_on = scaler.update(overflows.back());
      const Replay expected = replay(settings, overflows);
      ASSERT_EQ(goes_on, !expected.is_stuck) << "sequence " << sequence << ", step " << step;
      ASSERT_EQ(scaler.scale(), expected.scale) << "sequence " << sequence << ", step " << step;
      grown += scaler.scale() > before ? 1 : 0;
      if (!goes_on) {
        ++stuck;
        break;
      }
    }
  }
  EXPECT_GT(stuck, 100u);
  EXPECT_GT(grown, 1000u);
}

TEST(LossScaler, HasDeepSpeedsDefaults) {
  LossScaler scaler{LossScaleSettings{}};
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 65536);  // hysteresis 2: the first overflow is free
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 16384);  // and is not refilled
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 16384);
  EXPECT_TRUE(scaler.update(false));  // the thousand-and-first: k is 1000
  EXPECT_EQ(scaler.scale(), 32768);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaleSettings settings;
  settings.window = 3;
  std::mt19937 generator(3);
  LossScaler whole(settings);
  for (int step = 0; step < 50; ++step) {
    LossScaler resumed(settings);
    resumed.restore(whole.state());
    const bool overflowed = generator() % 4 == 0;
    EXPECT_EQ(resumed.update(overflowed), whole.update(overflowed));
    EXPECT_EQ(resumed.state(), whole.state());
  }
}

TEST(LossScaler, KeepsAFixedScale) {
  LossScaleSettings settings;
  settings.fixed_scale = 128;
  LossScaler scaler(settings);
  for (int step = 0; step < 20; ++step) EXPECT_TRUE(scaler.update(step % 2 == 0));
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, KeepsAFixedScaleWhenARunGoesOn) {
  LossScaler scaler({.fixed_scale = 128});
  scaler.restore({.scale = 65536, .hysteresis = 1, .iteration = 10, .last_overflow = 9});
  EXPECT_EQ(scaler.scale(), 128);
  LossScaler dynamic({});
  dynamic.restore({.scale = 512, .hysteresis = 1, .iteration = 10, .last_overflow = 9});
  EXPECT_EQ(dynamic.scale(), 512);
}

TEST(LossScaler, RefusesWhatNoRunCanUse) {
  const auto is_refused = [](const auto& change) {
    LossScaleSettings settings;
    change(settings);
    EXPECT_THROW(settings.validate(), Error);
  };
  is_refused([](auto& s) { s.fixed_scale = -1; });
  is_refused([](auto& s) { s.fixed_scale = std::numeric_limits<double>::infinity(); });
  is_refused([](auto& s) { s.least = 0; });
  is_refused([](auto& s) { s.window = 0; });
  is_refused([](auto& s) { s.hysteresis = 0; });
  is_refused([](auto& s) { s.initial_power = 127; });
}

}  // namespace
}  // namespace zeroplan::runtime
