// What each optimizer does in a run: LAMB's ratios, momenta that a schedule moves, constants, checkpoints.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/runtime/temporary_folder.h"
#include "tests/runtime/training_support.h"
#include "tests/support/loopback_training.h"

namespace zeroplan::testing {
namespace {

using planner::OptimizerKind;

const std::vector<OptimizerKind>& trained_optimizers() {
  static const std::vector<OptimizerKind> all = {OptimizerKind::kAdamW, OptimizerKind::kAdam,    OptimizerKind::kSgd,
                                                 OptimizerKind::kLion,  OptimizerKind::kAdagrad, OptimizerKind::kLamb};
  return all;
}

std::vector<std::string> train(OptimizerKind optimizer, const runtime::TrainSettings& settings,
                               const runtime::ScheduleSettings* schedule = nullptr) {
  TinyRun run(gpt2_config(), {.ranks = 2, .stage = 1, .optimizer = optimizer});
  if (schedule != nullptr) run.schedule = runtime::make_schedule(*schedule);
  return run.train(settings);
}

std::vector<std::string> train(OptimizerKind optimizer, const runtime::OptimizerSettings& constants,
                               const runtime::ScheduleSettings* schedule = nullptr) {
  runtime::TrainSettings settings;
  settings.steps = 4;
  settings.optimizer = constants;
  return train(optimizer, settings, schedule);
}

TEST(Optimizers, EachTrainsInItsOwnWay) {
  std::set<std::string> last;
  for (const OptimizerKind optimizer : trained_optimizers()) {
    last.insert(train(optimizer, runtime::OptimizerSettings::of(optimizer)).back());
  }
  EXPECT_EQ(last.size(), trained_optimizers().size());
}

TEST(Optimizers, ConstantsReachTheKernels) {
  const auto differs = [](OptimizerKind optimizer, const std::function<void(runtime::OptimizerSettings&)>& change) {
    const auto plain = runtime::OptimizerSettings::of(optimizer);
    auto changed = plain;
    change(changed);
    return train(optimizer, plain).back() != train(optimizer, changed).back();
  };
  EXPECT_TRUE(differs(OptimizerKind::kAdamW, [](auto& s) { s.beta1 = 0.5; }));
  EXPECT_TRUE(differs(OptimizerKind::kAdam, [](auto& s) { s.beta2 = 0.5; }));
  EXPECT_TRUE(differs(OptimizerKind::kAdagrad, [](auto& s) { s.eps = 1; }));
  EXPECT_TRUE(differs(OptimizerKind::kSgd, [](auto& s) { s.momentum = 0.5; }));
  EXPECT_TRUE(differs(OptimizerKind::kSgd, [](auto& s) { s.nesterov = true; }));
  EXPECT_TRUE(differs(OptimizerKind::kLion, [](auto& s) { s.beta2 = 0.1; }));
  EXPECT_TRUE(differs(OptimizerKind::kLamb, [](auto& s) { s.max_coeff = 0.02; }));
  EXPECT_TRUE(differs(OptimizerKind::kLamb, [](auto& s) { s.min_coeff = 5; }));
}

TEST(Optimizers, ConstantsOutOfRangeAreRefused) {
  const auto refused = [](const std::function<void(runtime::OptimizerSettings&)>& change) {
    runtime::OptimizerSettings settings;
    change(settings);
    EXPECT_THROW(settings.validate(), Error);
  };
  runtime::OptimizerSettings().validate();
  refused([](auto& s) { s.beta1 = 1; });
  refused([](auto& s) { s.beta2 = -0.1; });
  refused([](auto& s) { s.eps = 0; });
  refused([](auto& s) { s.eps = 1e-60; });
  refused([](auto& s) { s.momentum = 1.5; });
  refused([](auto& s) {
    s.nesterov = true;
    s.momentum = 0;
  });
  refused([](auto& s) { s.max_coeff = 0.001; });
  refused([](auto& s) { s.min_coeff = std::nan(""); });
}

/// A cycle whose rate and momentum stand still.
runtime::ScheduleSettings still_cycle(const std::string& momentum) {
  runtime::ScheduleSettings settings;
  settings.name = "OneCycle";
  settings.arguments = {{"cycle_min_lr", "1e-3"},
                        {"cycle_max_lr", "1e-3"},
                        {"cycle_first_step_size", "5"},
                        {"cycle_min_mom", momentum},
                        {"cycle_max_mom", momentum}};
  return settings;
}

TEST(Optimizers, OneCycleMovesBetasWhereThereAreSome) {
  const auto cycle = still_cycle("0.7");
  for (const OptimizerKind optimizer : trained_optimizers()) {
    SCOPED_TRACE(planner::name_of(optimizer));
    auto moved = runtime::OptimizerSettings::of(optimizer);
    const auto plain = train(optimizer, moved);
    if (runtime::has_betas(optimizer)) {
      moved.beta1 = 0.7;
      moved.beta2 = 0.99;
      EXPECT_NE(train(optimizer, moved), plain);
    }
    EXPECT_EQ(train(optimizer, runtime::OptimizerSettings::of(optimizer), &cycle), train(optimizer, moved));
  }
}

TEST(Optimizers, AMomentumThatGrowsToOneIsRefused) {
  auto cycle = still_cycle("0.9");
  cycle.arguments["cycle_first_step_size"] = "1";
  cycle.arguments["decay_step_size"] = "1";
  cycle.arguments["decay_mom_rate"] = "0.2";
  EXPECT_THROW(train(OptimizerKind::kAdam, runtime::OptimizerSettings(), &cycle), Error);
  EXPECT_NO_THROW(train(OptimizerKind::kSgd, runtime::OptimizerSettings(), &cycle));
}

TEST(Optimizers, ResumeEqualsNoInterruption) {
  for (const OptimizerKind optimizer : trained_optimizers()) {
    SCOPED_TRACE(planner::name_of(optimizer));
    const TemporaryFolder folder;
    runtime::TrainSettings settings;
    settings.steps = 4;
    settings.optimizer = runtime::OptimizerSettings::of(optimizer);
    const auto whole = train(optimizer, settings);
    settings.checkpoint_dir = folder.path();
    settings.steps = 2;
    train(optimizer, settings);
    settings.steps = 4;
    settings.resume = true;
    EXPECT_EQ(train(optimizer, settings), std::vector<std::string>(whole.begin() + 2, whole.end()));
  }
}

TEST(Optimizers, ResumeWithAnotherIsRefused) {
  const TemporaryFolder folder;
  runtime::TrainSettings settings;
  settings.steps = 2;
  settings.checkpoint_dir = folder.path();
  train(OptimizerKind::kAdamW, settings);
  settings.resume = true;
  settings.steps = 3;
  try {
    train(OptimizerKind::kAdam, settings);
    FAIL() << "resumed moments of another optimizer";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_NE(error.message().find("written with the optimizer adamw, the plan has adam"), std::string::npos)
        << error.message();
  }
}

/// All parameters of rank 0 after so many updates, by tensor.
std::vector<std::vector<float>> parameters_after(const planner::Plan& plan, std::uint64_t updates) {
  std::vector<std::vector<float>> tensors(plan.model.parameters.size());
  train_on_loopback(plan, updates, {}, [&](const runtime::Executor& executor) {
    if (executor.rank() != 0) return;
    for (const runtime::GroupState& group : executor.groups()) {
      const auto* values = reinterpret_cast<const float*>(group.parameters);
      for (const planner::PartitionedTensor& tensor : plan.partition.groups[group.group].tensors) {
        const float* from = values + tensor.offset.count();
        tensors[tensor.parameter].assign(from, from + tensor.elements.count());
      }
    }
  });
  return tensors;
}

// Without clamps LAMB moves each tensor by |step| = lr sqrt(bias_correction2) / bias_correction1 x |p|. Each element of
// p is rounded once in fp32: the norm of the difference is off by at most 2^-24 |p|, relative to the step 2^-24 / step
// size; and its direction by 16 roundings.
TEST(Optimizers, LambMovesEachTensorInProportionToItsNorm) {
  for (const std::uint64_t ranks : {1, 3}) {
    const planner::Plan plan =
        make_test_plan(gpt2_config(), {.ranks = ranks, .stage = 1, .optimizer = OptimizerKind::kLamb});
    const auto before = parameters_after(plan, 1);
    const auto after = parameters_after(plan, 2);
    const double step_size = 1e-2 * std::sqrt(1 - std::pow(0.999, 2)) / (1 - std::pow(0.9, 2));
    for (std::size_t p = 0; p < before.size(); ++p) {
      double moved = 0;
      double norm = 0;
      for (std::size_t e = 0; e < before[p].size(); ++e) {
        moved += std::pow(static_cast<double>(after[p][e]) - before[p][e], 2);
        norm += std::pow(static_cast<double>(before[p][e]), 2);
      }
      ASSERT_GT(norm, 0) << plan.model.parameters[p].name;
      EXPECT_NEAR(std::sqrt(moved / norm) / step_size, 1, 0x1p-24 / step_size + 16 * 0x1p-24)
          << plan.model.parameters[p].name << ", ranks " << ranks;
    }
  }
}

// Gradients are sums over other parts of the batch: losses agree to rounding. The norms' own share is 2 n 2^-53.
TEST(Optimizers, LambHardlyDependsOnTheNumberOfRanks) {
  const auto losses_of = [](std::uint64_t ranks) {
    const planner::Plan plan =
        make_test_plan(gpt2_config(), {.ranks = ranks, .micro_batch = 6 / ranks, .optimizer = OptimizerKind::kLamb});
    return train_on_loopback(plan, 4).losses;
  };
  const auto one = losses_of(1);
  for (const std::uint64_t ranks : {2, 3}) {
    const auto other = losses_of(ranks);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i] / one[i], 1, 1e-5);
  }
}

}  // namespace
}  // namespace zeroplan::testing
