#include <gtest/gtest.h>

#include "runtime/poison.h"
#include "tests/runtime/training_support.h"

namespace zeroplan::testing {
namespace {

TEST(PlannedMemory, IsUsedToTheLastByteAndWritten) {
  for (const std::uint64_t stage : {0, 1, 2, 3}) {
    TinyRun run(llama_config(), {.ranks = 2, .stage = stage});
    runtime::Trainer trainer(run.plan, {.steps = 2}, run.batches, *run.weights, *run.schedule);
    trainer.evaluate(1);
    const auto summary = trainer.train([](const runtime::StepReport&) {}, run.no_interrupt);
    EXPECT_EQ(summary.used[0], summary.planned[0]) << "stage " << stage;
    EXPECT_GE(static_cast<double>(summary.written[0].count()), 0.98 * static_cast<double>(summary.planned[0].count()))
        << "stage " << stage;
  }
}

TEST(PlannedMemory, OfAllStepBuffersDiesWithinTheCycle) {
  const planner::Plan plan = make_test_plan(llama_config(), {.ranks = 2, .stage = 3, .accumulation = 2});
  std::vector<bool> dies(plan.buffers.size(), false);
  for (const auto& step : runtime::dying_bytes(plan)) {
    for (const auto& task : step) {
      for (const planner::Access& access : task) dies[access.buffer] = true;
    }
  }
  for (const planner::Buffer& buffer : plan.buffers) EXPECT_EQ(dies[buffer.id], !buffer.always) << buffer.name;
}

}  // namespace
}  // namespace zeroplan::testing
