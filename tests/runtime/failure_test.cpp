#include <gtest/gtest.h>

#include "tests/runtime/training_support.h"

namespace zeroplan::testing {
namespace {

/// Tokens that cannot be read from some update on, by one rank only.
class FailingTokens final : public runtime::TokenSource {
 public:
  std::uint64_t tokens() const override { return 1000; }
  void read(std::uint64_t first, std::span<std::int32_t> target) const override {
    if (reads_++ == 9) throw Error(ErrorCode::kIo, kMessage);
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int32_t>((first + i) % 100);
  }

 private:
  static constexpr const char* kMessage = "the data went away";
  mutable std::atomic<int> reads_{0};
};

TEST(Trainer, EndsAllRanksWithTheFirstError) {
  TinyRun run(llama_config(), {.ranks = 4, .stage = 3});
  const FailingTokens tokens;
  const runtime::Batches batches(tokens, {4, 1, 2, 16}, 0, "failing");
  runtime::Trainer trainer(run.plan, {.steps = 50}, batches, *run.weights, *run.schedule);
  try {
    trainer.train([](const runtime::StepReport&) {}, run.no_interrupt);
    FAIL() << "trained without data";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(error.message().find("the data went away"), std::string::npos);
    EXPECT_NE(error.message().find("in task input"), std::string::npos) << error.message();
  }
}

TEST(Trainer, EndsWhenTheReportCannotBeWritten) {
  TinyRun run(llama_config(), {.ranks = 2, .stage = 1});
  runtime::Trainer trainer(run.plan, {.steps = 50}, run.batches, *run.weights, *run.schedule);
  EXPECT_THROW(
      trainer.train([](const runtime::StepReport&) { throw Error(ErrorCode::kIo, "disk full"); }, run.no_interrupt),
      Error);
}

TEST(Trainer, EndsAfterTheStepWhenInterrupted) {
  TinyRun run(llama_config(), {.ranks = 2, .stage = 2});
  runtime::Trainer trainer(run.plan, {.steps = 1000}, run.batches, *run.weights, *run.schedule);
  std::atomic<bool> interrupt{false};
  const auto summary = trainer.train(
      [&](const runtime::StepReport& r) {
        if (r.step == 3) interrupt = true;
      },
      interrupt);
  EXPECT_TRUE(summary.interrupted);
  EXPECT_GE(summary.steps, 3u);
  EXPECT_LE(summary.steps, 6u);
}

}  // namespace
}  // namespace zeroplan::testing
