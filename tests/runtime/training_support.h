// Runs of tiny plans for tests. Main type: TinyRun.
#pragma once

#include <string>
#include <vector>

#include "runtime/trainer.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::testing {

/// A plan with random tokens and weights from fixed seeds.
struct TinyRun {
  planner::Plan plan;
  std::unique_ptr<runtime::TokenSource> source;
  runtime::Batches batches;
  std::unique_ptr<runtime::WeightSource> weights;
  std::unique_ptr<runtime::Schedule> schedule;

  TinyRun(const Json& config, const PlanSettings& settings)
      : plan(make_test_plan(config, settings)),
        source(runtime::open_tokens({.data = "random", .labels = {}, .vocabulary = plan.model.vocab, .seed = 1})),
        batches(*source,
                {plan.partition.ranks, plan.strategy.accumulation, plan.strategy.micro_batch, plan.training.seq}, 1,
                "random"),
        weights(runtime::random_weights(plan.model, 3)),
        schedule(runtime::make_schedule(
            {.name = "constant", .peak_rate = 1e-3, .warmup_steps = 0, .total_steps = 0, .arguments = {}})) {}

  /// Losses and gradient norms of each update, as hexadecimal floats: equal text is equal bits.
  std::vector<std::string> train(const runtime::TrainSettings& settings) {
    std::vector<std::string> lines;
    runtime::Trainer trainer(plan, settings, batches, *weights, *schedule);
    summary = trainer.train(
        [&](const runtime::StepReport& report) {
          char text[96];
          std::snprintf(text, sizeof(text), "%a %a", report.loss, report.grad_norm);
          lines.emplace_back(text);
        },
        no_interrupt);
    return lines;
  }

  runtime::TrainSummary summary;
  std::atomic<bool> no_interrupt{false};
};

inline std::vector<std::string> losses(const Json& config, const PlanSettings& settings, std::uint64_t steps = 3,
                                       int threads = 1, bool poison = false) {
  TinyRun run(config, settings);
  runtime::TrainSettings train;
  train.steps = steps;
  train.threads = threads;
  train.poison = poison;
  return run.train(train);
}

}  // namespace zeroplan::testing
