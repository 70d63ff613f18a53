// Memory is not bought with time: waits that exist only because buffers share addresses cost at most 2 % of a step.
#include <gtest/gtest.h>

#include "models/load_model.h"
#include "planner/choice.h"
#include "planner/plan_maker.h"
#include "simulator/event_simulator.h"

namespace zeroplan::simulator {
namespace {

constexpr double kMostRatio = 1.02;

class MemoryWaits : public ::testing::TestWithParam<const char*> {};

TEST_P(MemoryWaits, CostAtMostTwoPercent) {
  const models::Model model = models::load_model(GetParam());
  for (const char* machine_name : {"cpu", "h100"}) {
    planner::Machine machine = planner::parse_machine(machine_name);
    machine.gpus = 8;
    planner::TrainingSpec training;
    training.gpus = machine.gpus;
    training.seq = std::min<std::uint64_t>(model.positions, 2048);
    const planner::CostModel costs(machine, training);
    for (std::uint64_t stage = 0; stage <= 3; ++stage) {
      for (const std::uint64_t accumulation : {1, 3}) {
        planner::Strategy strategy;
        strategy.stage = stage;
        strategy.accumulation = accumulation;
        strategy = planner::with_model_sizes(model, training, {}, strategy);
        const planner::Plan plan = planner::make_plan(model, machine, training, strategy);
        const double with = simulate(plan, costs).record.step.value();
        const double without = simulate(plan, costs, {.without_address_waits = true}).record.step.value();
        EXPECT_LE(with, kMostRatio * without)
            << machine_name << ", stage " << stage << ", accumulation " << accumulation;
        EXPECT_LE(plan.tier(planner::Tier::kDevice).op_lower_bound, plan.tier(planner::Tier::kDevice).lower_bound);
        EXPECT_GT(plan.tier(planner::Tier::kDevice).op_lower_bound, Bytes());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, MemoryWaits,
                         ::testing::Values("gpt2", "gpt2-xl", "llama-3.2-1b", "llama-3.1-8b", "llama-2-70b",
                                           "mistral-7b", "qwen2.5-0.5b", "qwen2.5-7b", "qwen3-8b", "llama-3.1-405b",
                                           "tiny-llama-bytes"));

}  // namespace
}  // namespace zeroplan::simulator
