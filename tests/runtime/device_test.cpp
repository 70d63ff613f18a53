// Plans of the CUDA back end, executed on a device that computes with the CPU's kernels: everything but the kernels
// and the driver is what a GPU gets.
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/verify.h"
#include "runtime/device/device_library.h"
#include "runtime/device/device_ranks.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/runtime/training_support.h"
#include "tests/support/host_device.h"

namespace zeroplan::runtime {
namespace {

using planner::BackendKind;
using planner::OptimizerKind;
using planner::Precision;
using testing::HostDevice;
using testing::PlanSettings;
using testing::TinyRun;

constexpr std::uint64_t kSteps = 5;  // two enqueued call by call, then graphs

PlanSettings on_device(PlanSettings settings) {
  settings.backend = BackendKind::kCuda;
  return settings;
}

std::vector<std::string> train_on_device(const Json& config, const PlanSettings& settings, HostDevice& device,
                                         TrainSummary* summary = nullptr, bool use_graphs = true) {
  TinyRun run(config, on_device(settings));
  TrainSettings train;
  train.steps = kSteps;
  train.device = &device;
  train.use_graphs = use_graphs;
  auto lines = run.train(train);
  if (summary != nullptr) *summary = run.summary;
  return lines;
}

std::string name_of_case(const PlanSettings& s) {
  return "stage " + std::to_string(s.stage) + ", ranks " + std::to_string(s.ranks) + ", accumulation " +
         std::to_string(s.accumulation) + ", " + std::string(planner::name_of(s.precision)) + ", " +
         std::string(planner::name_of(s.optimizer));
}

/// The same bits as the CPU back end, whatever the order in which streams take turns, with graphs and without.
void expect_as_on_cpu(const Json& config, const PlanSettings& settings) {
  SCOPED_TRACE(name_of_case(settings));
  const auto expected = testing::losses(config, settings, kSteps);
  for (const std::uint64_t seed : {1u, 2u}) {
    HostDevice device(seed);
    EXPECT_EQ(train_on_device(config, settings, device), expected);
    EXPECT_EQ(device.graphs_launched, 2 * (kSteps - 2));
    EXPECT_EQ(device.memory().free, device.memory().total) << "device memory was not given back";
  }
  HostDevice device(3);
  EXPECT_EQ(train_on_device(config, settings, device, nullptr, false), expected);
  EXPECT_EQ(device.graphs_launched, 0u);
}

TEST(DeviceRanks, TrainsAsTheCpuAtEveryStage) {
  for (const std::uint64_t stage : {0u, 1u, 2u, 3u}) {
    expect_as_on_cpu(testing::gpt2_config(), {.ranks = 2, .stage = stage, .accumulation = 1});
    expect_as_on_cpu(testing::qwen2_tied_config(), {.ranks = 4, .stage = stage, .accumulation = 3});
  }
  expect_as_on_cpu(testing::qwen3_config(), {.ranks = 1, .stage = 0});
}

TEST(DeviceRanks, TrainsAsTheCpuInEveryPrecision) {
  for (const Precision precision : {Precision::kBf16Mixed, Precision::kBf16, Precision::kFp16Mixed}) {
    expect_as_on_cpu(testing::llama_config(), {.ranks = 2, .stage = 3, .precision = precision});
    expect_as_on_cpu(testing::gpt2_config(), {.ranks = 2, .stage = 1, .accumulation = 2, .precision = precision});
  }
}

TEST(DeviceRanks, TrainsAsTheCpuWithEveryOptimizer) {
  for (const OptimizerKind optimizer : {OptimizerKind::kAdam, OptimizerKind::kSgd, OptimizerKind::kLion,
                                        OptimizerKind::kAdagrad, OptimizerKind::kLamb}) {
    expect_as_on_cpu(testing::gpt2_config(), {.ranks = 2, .stage = 2, .optimizer = optimizer});
  }
}

TEST(DeviceRanks, TrainsAsTheCpuWithRecompute) {
  expect_as_on_cpu(testing::llama_config(), {.ranks = 2, .stage = 3, .recompute = planner::Recompute::kFull});
  expect_as_on_cpu(testing::gpt2_config(), {.ranks = 2, .stage = 0, .recompute = planner::Recompute::kSelective});
}

/// The device of these tests shows a missing wait: some order of its streams gives another result.
TEST(HostDevice, StreamsRunInAnyOrderThatEventsAllow) {
  const auto results = [](bool waits) {
    std::set<int> seen;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      HostDevice device(seed);
      const auto a = device.make_stream();
      const auto b = device.make_stream();
      const auto event = device.make_event(false);
      const int one = 1;
      int first = 0;
      int second = 0;
      a->copy(&first, &one, sizeof(int));
      a->record(*event);
      if (waits) b->wait(*event);
      b->copy(&second, &first, sizeof(int));
      b->synchronize();
      a->synchronize();
      seen.insert(second);
    }
    return seen;
  };
  EXPECT_EQ(results(true), std::set<int>({1}));
  EXPECT_EQ(results(false), std::set<int>({0, 1}));
}

TEST(DeviceRanks, UsesWhatWasPlanned) {
  HostDevice device;
  TrainSummary summary;
  train_on_device(testing::gpt2_config(), {.ranks = 2, .stage = 2}, device, &summary);
  for (const planner::Tier tier : {planner::Tier::kDevice, planner::Tier::kHost}) {
    const auto t = static_cast<std::size_t>(tier);
    EXPECT_GT(summary.planned[t], Bytes());
    EXPECT_EQ(summary.used[t], summary.planned[t]);
  }
  EXPECT_GT(summary.record.lane(planner::Lane::kCompute).tasks, 0u);
}

TEST(DeviceRanks, PlansForTheCpuHaveNoHostBuffers) {
  const auto cpu = testing::make_test_plan(testing::gpt2_config(), {});
  EXPECT_EQ(cpu.tier(planner::Tier::kHost).arena, Bytes());
  const auto cuda = testing::make_test_plan(testing::gpt2_config(), on_device({}));
  EXPECT_GT(cuda.tier(planner::Tier::kHost).arena, Bytes());
  EXPECT_THAT(planner::verify(cuda), ::testing::IsEmpty());
}

TEST(DeviceRanks, ResumesWithoutChangingABit) {
  const PlanSettings settings{.ranks = 2, .stage = 2, .precision = Precision::kBf16Mixed};
  const auto whole = testing::losses(testing::gpt2_config(), settings, kSteps);
  const testing::TemporaryFolder folder;
  std::vector<std::string> lines;
  for (const std::uint64_t steps : {std::uint64_t{3}, kSteps}) {
    HostDevice device;
    TinyRun run(testing::gpt2_config(), on_device(settings));
    TrainSettings train;
    train.steps = steps;
    train.device = &device;
    train.checkpoint_dir = folder.path();
    train.resume = steps == kSteps;
    for (std::string& line : run.train(train)) lines.push_back(std::move(line));
  }
  EXPECT_EQ(lines, whole);
}

TEST(DeviceRanks, EvaluatesAsTheCpu) {
  const PlanSettings settings{.ranks = 2, .stage = 3};
  const auto loss = [&](BackendKind backend, kernels::Device* device) {
    PlanSettings with = settings;
    with.backend = backend;
    TinyRun run(testing::llama_config(), with);
    TrainSettings train;
    train.device = device;
    Trainer trainer(run.plan, train, run.batches, *run.weights, *run.schedule);
    return trainer.evaluate(2);
  };
  HostDevice device;
  const EvalSummary on_cpu = loss(BackendKind::kCpu, nullptr);
  const EvalSummary on_host_device = loss(BackendKind::kCuda, &device);
  EXPECT_EQ(on_host_device.loss, on_cpu.loss);
  EXPECT_EQ(on_host_device.tokens, on_cpu.tokens);
}

std::string message_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(DeviceRanks, SaysHowManyBytesAreMissing) {
  HostDevice device(1, 1000);
  const std::string message =
      message_of([&] { train_on_device(testing::gpt2_config(), {.ranks = 2}, device); }, ErrorCode::kDoesNotFit);
  const auto plan = testing::make_test_plan(testing::gpt2_config(), on_device({.ranks = 2}));
  const std::uint64_t missing = 2 * plan.tier(planner::Tier::kDevice).arena.count() - 1000;
  EXPECT_THAT(message, ::testing::HasSubstr(std::to_string(missing) + " bytes) are missing"));
}

TEST(DeviceRanks, RefusesAPlanWithTooLittleScratch) {
  HostDevice device;
  device.least_workspace = std::size_t{1} << 40;
  const std::string message =
      message_of([&] { train_on_device(testing::gpt2_config(), {.ranks = 1}, device); }, ErrorCode::kInvalidInput);
  EXPECT_THAT(message, ::testing::HasSubstr("1099511627776"));
}

TEST(DeviceRanks, NeedsADevice) {
  TinyRun run(testing::gpt2_config(), on_device({}));
  message_of([&] { run.train({}); }, ErrorCode::kDevice);
}

TEST(DeviceLibrary, SaysInOneLineWhyItIsNotThere) {
  const DeviceLibrary nowhere({"/nonexistent/libzeroplan_cuda.so"});
  EXPECT_FALSE(nowhere.is_open());
  EXPECT_THAT(nowhere.why_not(), ::testing::HasSubstr("not beside the program"));
  message_of([&] { static_cast<void>(nowhere.open_device({})); }, ErrorCode::kDevice);

  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "libzeroplan_cuda.so";
  std::ofstream(path) << "no library";
  const DeviceLibrary broken({path});
  EXPECT_FALSE(broken.is_open());
  EXPECT_THAT(broken.why_not(), ::testing::Not(::testing::HasSubstr("\n")));
  EXPECT_EQ(broken.path(), path);
}

}  // namespace
}  // namespace zeroplan::runtime
