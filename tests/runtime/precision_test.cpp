#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "planner/verify.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/runtime/training_support.h"

namespace zeroplan::testing {
namespace {

using planner::Precision;

class PrecisionCase : public ::testing::TestWithParam<Precision> {};

TEST_P(PrecisionCase, GivesTheSameBitsAtAllStages) {
  for (const Json& config : {llama_config(), gpt2_config(), qwen2_tied_config(), qwen3_config()}) {
    for (const std::uint64_t ranks : {1, 3}) {
      PlanSettings settings{.ranks = ranks, .stage = 0, .precision = GetParam()};
      const auto expected = losses(config, settings);
      EXPECT_NE(expected[0], expected[2]);
      for (std::uint64_t stage = 1; stage <= 3; ++stage) {
        settings.stage = stage;
        EXPECT_EQ(losses(config, settings), expected) << "stage " << stage << ", ranks " << ranks;
      }
    }
  }
}

TEST_P(PrecisionCase, GivesTheSameBitsWithThreadsRecomputeAndPoison) {
  PlanSettings settings{.ranks = 2, .stage = 3, .seq = 48, .precision = GetParam()};
  const auto expected = losses(qwen3_config(), settings);
  EXPECT_EQ(losses(qwen3_config(), settings, 3, 3), expected);
  EXPECT_EQ(losses(qwen3_config(), settings, 3, 1, true), expected);
  for (const auto recompute : {planner::Recompute::kSelective, planner::Recompute::kFull}) {
    settings.recompute = recompute;
    EXPECT_EQ(losses(qwen3_config(), settings), expected);
  }
}

TEST_P(PrecisionCase, MakesPlansThatTheVerifierAccepts) {
  for (const Json& config : {llama_config(), gpt2_config()}) {
    for (std::uint64_t stage = 0; stage <= 3; ++stage) {
      const planner::Plan plan =
          make_test_plan(config, {.ranks = 2, .stage = stage, .accumulation = 3, .precision = GetParam()});
      EXPECT_TRUE(planner::verify(plan).empty()) << "stage " << stage;
    }
  }
}

/// 16-bit storage loses 2^-8 (bf16) or 2^-11 (fp16) in each value; the loss is a mean over all of them and follows fp32
/// far closer than one value does.
TEST_P(PrecisionCase, StaysNearFp32) {
  const auto final_loss = [](Precision precision) {
    TinyRun run(gpt2_config(), {.ranks = 2, .stage = 2, .accumulation = 2, .precision = precision});
    runtime::TrainSettings train;
    train.steps = 12;
    run.train(train);
    return run.summary.loss.value();
  };
  const double expected = final_loss(Precision::kFp32);
  EXPECT_NEAR(final_loss(GetParam()), expected, 0.01 * expected);
}

TEST_P(PrecisionCase, ResumesToTheSameBits) {
  const TemporaryFolder folder;
  const PlanSettings settings{.ranks = 2, .stage = 1, .precision = GetParam()};
  const auto expected = losses(llama_config(), settings, 6);
  runtime::TrainSettings train;
  train.checkpoint_dir = folder.path();
  train.steps = 3;
  TinyRun(llama_config(), settings).train(train);
  train.steps = 6;
  train.resume = true;
  // Another stage resumes the same file.
  TinyRun resumed(llama_config(), {.ranks = 2, .stage = 3, .precision = GetParam()});
  const auto rest = resumed.train(train);
  EXPECT_EQ(rest, std::vector<std::string>(expected.begin() + 3, expected.end()));
}

INSTANTIATE_TEST_SUITE_P(Narrow, PrecisionCase,
                         ::testing::Values(Precision::kBf16Mixed, Precision::kFp16Mixed, Precision::kBf16),
                         [](const auto& test) {
                           std::string name(planner::name_of(test.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Every optimizer reads 16-bit gradients and writes 16-bit parameters.
TEST(PrecisionOfOptimizers, GivesTheSameBitsAtStages0And3) {
  using planner::OptimizerKind;
  for (const auto optimizer : {OptimizerKind::kAdam, OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdagrad,
                               OptimizerKind::kLamb}) {
    for (const Precision precision : {Precision::kBf16Mixed, Precision::kFp16Mixed, Precision::kBf16}) {
      if (optimizer == OptimizerKind::kLamb && precision == Precision::kBf16) continue;
      PlanSettings settings{.ranks = 2, .stage = 0, .precision = precision};
      settings.optimizer = optimizer;
      const auto expected = losses(llama_config(), settings);
      settings.stage = 3;
      EXPECT_EQ(losses(llama_config(), settings), expected) << planner::name_of(optimizer);
    }
  }
}

/// Gradients that are kept, accumulated and reduced in fp32 beside 16-bit weights.
class Fp32Gradients : public ::testing::TestWithParam<Precision> {};

TEST_P(Fp32Gradients, GiveTheSameBitsAtAllStages) {
  for (const Json& config : {gpt2_config(), qwen2_tied_config(), qwen3_config()}) {
    PlanSettings settings{.ranks = 3, .stage = 0, .precision = GetParam()};
    const auto narrow = losses(config, settings);
    settings.gradients = planner::GradientType::kFp32;
    const auto expected = losses(config, settings);
    EXPECT_NE(expected, narrow);  // or the setting has no effect
    for (std::uint64_t stage = 1; stage <= 3; ++stage) {
      settings.stage = stage;
      EXPECT_EQ(losses(config, settings, 3, 2, true), expected) << "stage " << stage;
    }
  }
}

// What a parameter's gradient takes doubles, and nothing else of a plan's states changes.
TEST_P(Fp32Gradients, TakeTwiceTheBytes) {
  for (std::uint64_t stage = 0; stage <= 3; ++stage) {
    PlanSettings settings{.ranks = 2, .stage = stage, .accumulation = 2, .precision = GetParam()};
    const planner::Plan narrow = make_test_plan(gpt2_config(), settings);
    settings.gradients = planner::GradientType::kFp32;
    const planner::Plan wide = make_test_plan(gpt2_config(), settings);
    EXPECT_TRUE(planner::verify(wide).empty()) << "stage " << stage;
    for (const planner::Buffer& buffer : narrow.buffers) {
      const bool is_gradient = buffer.name.ends_with("/ gradients") || buffer.name.ends_with("/ gradient shard");
      const bool is_state =
          buffer.name.find(" / moment ") != std::string::npos || buffer.name.ends_with("/ parameters");
      if (!is_gradient && !is_state) continue;  // a program's scratch may be another
      const auto same = std::find_if(wide.buffers.begin(), wide.buffers.end(),
                                     [&](const planner::Buffer& b) { return b.name == buffer.name; });
      ASSERT_NE(same, wide.buffers.end()) << buffer.name;
      EXPECT_EQ(same->bytes.count(), (is_gradient ? 2 : 1) * buffer.bytes.count()) << buffer.name;
    }
  }
}

// The same 16 sequences, summed from 16 passes of one or in a single pass: fp32 sums of what both compute from the same
// 16-bit activations. A product over a pass's tokens is an fp32 sum as well, so only the order differs: the norms agree
// to the fp32 rounding of so many terms. A sum kept in 16 bits is rounded at each of the 15 additions.
TEST_P(Fp32Gradients, DoNotDependOnHowTheBatchIsCut) {
  const auto norm = [](std::uint64_t micro_batch, std::uint64_t accumulation) {
    TinyRun run(gpt2_config(), {.ranks = 1,
                                .stage = 1,
                                .accumulation = accumulation,
                                .micro_batch = micro_batch,
                                .precision = GetParam(),
                                .gradients = planner::GradientType::kFp32});
    runtime::TrainSettings train;
    train.steps = 1;
    runtime::Trainer trainer(run.plan, train, run.batches, *run.weights, *run.schedule);
    double result = 0;
    trainer.train([&](const runtime::StepReport& report) { result = report.grad_norm; }, run.no_interrupt);
    return result;
  };
  const double whole = norm(16, 1);
  EXPECT_GT(whole, 0);
  // d_logits and all that follows are 16-bit values scaled by 1 / tokens of the update in both runs, so they are equal.
  EXPECT_NEAR(norm(1, 16), whole, 1e-4 * whole);
}

INSTANTIATE_TEST_SUITE_P(Narrow, Fp32Gradients,
                         ::testing::Values(Precision::kBf16Mixed, Precision::kFp16Mixed, Precision::kBf16),
                         [](const auto& test) {
                           std::string name(planner::name_of(test.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// The scaler's rule, written down once more.
struct ReferenceScaler {
  double scale;
  int hysteresis = 2;
  int iteration = 0;
  int last = -1;

  void update(bool overflowed, int window) {
    if (overflowed) {
      if (hysteresis == 1) scale = std::max(scale / 2, 1.0);
      if (hysteresis > 1) --hysteresis;
      last = iteration;
    } else if (const int good = iteration - last - 1; good > 0 && good % window == 0) {
      hysteresis = 2;
      scale *= 2;
    }
    ++iteration;
  }
};

struct ScaledRun {
  std::vector<runtime::StepReport> reports;
  std::int64_t optimizer_steps = 0;
};

ScaledRun run_scaled(const PlanSettings& settings, const runtime::TrainSettings& train) {
  TinyRun run(llama_config(), settings);
  runtime::Trainer trainer(run.plan, train, run.batches, *run.weights, *run.schedule);
  ScaledRun result;
  trainer.train([&](const runtime::StepReport& report) { result.reports.push_back(report); }, run.no_interrupt);
  result.optimizer_steps = trainer.ranks().scalars(0).optimizer_step;
  return result;
}

// Gradients of this model overflow fp16 (65504) under 2^30: the scale falls until they fit, then grows into the next
// overflow, again and again.
TEST(LossScaling, FollowsTheReferenceThroughOverflows) {
  runtime::TrainSettings train;
  train.steps = 60;
  train.loss_scale.initial_power = 30;
  train.loss_scale.window = 4;
  const PlanSettings settings{.ranks = 2, .stage = 2, .precision = Precision::kFp16Mixed};
  const ScaledRun run = run_scaled(settings, train);
  ASSERT_EQ(run.reports.size(), 60u);
  ReferenceScaler reference{std::ldexp(1.0, 30)};
  std::int64_t skipped = 0, grown = 0;
  for (const runtime::StepReport& report : run.reports) {
    EXPECT_EQ(report.loss_scale, reference.scale) << "step " << report.step;
    const double before = reference.scale;
    reference.update(report.skipped, 4);
    skipped += report.skipped ? 1 : 0;
    grown += reference.scale > before ? 1 : 0;
  }
  EXPECT_GT(skipped, 5);
  EXPECT_GT(grown, 2);
  EXPECT_EQ(run.optimizer_steps, 60 - skipped);
}

TEST(LossScaling, SkippedUpdatesLeaveRateAndStateStill) {
  const PlanSettings settings{.ranks = 2, .stage = 1, .precision = Precision::kFp16Mixed};
  TinyRun run(llama_config(), settings);
  run.schedule = runtime::make_schedule(
      {.name = "linear", .peak_rate = 1e-3, .warmup_steps = 20, .total_steps = 40, .arguments = {}});
  runtime::TrainSettings train;
  train.steps = 12;
  train.loss_scale.initial_power = 24;
  runtime::Trainer trainer(run.plan, train, run.batches, *run.weights, *run.schedule);
  std::uint64_t applied = 0, skipped = 0;
  trainer.train(
      [&](const runtime::StepReport& report) {
        EXPECT_EQ(report.learning_rate, run.schedule->rate(applied)) << "step " << report.step;
        report.skipped ? ++skipped : ++applied;
      },
      run.no_interrupt);
  EXPECT_GT(skipped, 2u);
  EXPECT_GT(applied, 2u);
  EXPECT_EQ(trainer.ranks().scalars(1).optimizer_step, static_cast<std::int64_t>(applied));
}

TEST(LossScaling, EndsTheRunWhereNoScaleIsLeft) {
  runtime::TrainSettings train;
  train.steps = 20;
  train.loss_scale.initial_power = 40;
  train.loss_scale.least = std::ldexp(1.0, 38);
  TinyRun run(llama_config(), {.ranks = 2, .stage = 3, .precision = Precision::kFp16Mixed});
  runtime::Trainer trainer(run.plan, train, run.batches, *run.weights, *run.schedule);
  std::vector<double> scales;
  try {
    trainer.train([&](const runtime::StepReport& report) { scales.push_back(report.loss_scale); }, run.no_interrupt);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 4"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("already at its minimum"), std::string::npos) << error.what();
  }
  const double first = std::ldexp(1.0, 40);
  EXPECT_EQ(scales, (std::vector<double>{first, first, first / 2, first / 4}));
}

TEST(LossScaling, StateIsSavedAndResumed) {
  const TemporaryFolder folder;
  const PlanSettings settings{.ranks = 2, .stage = 2, .precision = Precision::kFp16Mixed};
  runtime::TrainSettings train;
  train.steps = 30;
  train.loss_scale.initial_power = 26;
  train.loss_scale.window = 3;
  const ScaledRun whole = run_scaled(settings, train);
  train.checkpoint_dir = folder.path();
  for (const std::uint64_t steps : {5, 17, 30}) {
    train.steps = steps;
    const ScaledRun part = run_scaled(settings, train);
    train.resume = true;
    for (const runtime::StepReport& report : part.reports) {
      const runtime::StepReport& expected = whole.reports.at(report.step - 1);
      EXPECT_EQ(report.loss_scale, expected.loss_scale) << "step " << report.step;
      EXPECT_EQ(report.loss, expected.loss) << "step " << report.step;
      EXPECT_EQ(report.skipped, expected.skipped) << "step " << report.step;
    }
  }
}

TEST(LossScaling, AFixedScaleStays) {
  runtime::TrainSettings train;
  train.steps = 4;
  train.loss_scale.fixed_scale = std::ldexp(1.0, 40);
  const ScaledRun run = run_scaled({.ranks = 1, .stage = 0, .precision = Precision::kFp16Mixed}, train);
  for (const runtime::StepReport& report : run.reports) {
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.loss_scale, std::ldexp(1.0, 40));
  }
  EXPECT_EQ(run.optimizer_steps, 0);
}

}  // namespace
}  // namespace zeroplan::testing
