#include "planner/memory_layout.h"

#include <chrono>

#include <gtest/gtest.h>

#include "planner/plan_json.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::planner {
namespace {

Plan plan_of_preset(const std::string& preset, std::uint64_t ranks, std::uint64_t stage, std::uint64_t accumulation,
                    Recompute recompute) {
  const models::Model model = models::load_model(preset);
  TrainingSpec training;
  training.gpus = ranks;
  training.seq = std::min<std::uint64_t>(model.positions, 2048);
  Strategy strategy;
  strategy.stage = stage;
  strategy.accumulation = accumulation;
  strategy.recompute = recompute;
  strategy = with_model_sizes(model, training, {}, strategy);
  return make_plan(model, testing::test_machine(ranks), training, strategy);
}

TEST(MemoryLayout, DeviceArenasOfAllPresetsAndStagesEqualTheirLowerBounds) {
  for (const char* preset : {"gpt2", "gpt2-xl", "llama-3.2-1b", "llama-3.1-8b", "llama-2-70b", "mistral-7b",
                             "qwen2.5-0.5b", "qwen2.5-7b", "qwen3-8b", "llama-3.1-405b", "tiny-llama-bytes"}) {
    for (std::uint64_t stage = 0; stage <= 3; ++stage) {
      for (const std::uint64_t accumulation : {1, 4}) {
        for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
          const Plan plan = plan_of_preset(preset, 8, stage, accumulation, recompute);
          const TierPlan& device = plan.tier(Tier::kDevice);
          EXPECT_EQ(device.arena, device.lower_bound) << preset << " stage " << stage << " accumulation "
                                                      << accumulation << " recompute " << name_of(recompute);
          for (const models::Program& program : plan.programs) {
            EXPECT_EQ(program.frame_bytes, program.lower_bound_bytes) << preset << ", " << program.name;
          }
        }
      }
    }
  }
}

/// Of the native presets at 8 ranks without accumulation the one whose bound is not met; whether it can be is open.
TEST(MemoryLayout, LittleIsLostWhereTheSearchMissesTheBound) {
  const TierPlan device = plan_of_preset("llama-3.2-3b", 8, 3, 1, Recompute::kFull).tier(Tier::kDevice);
  EXPECT_LE((device.arena - device.lower_bound).count() * 200, device.lower_bound.count());
}

TEST(MemoryLayout, PlanOf405BillionParametersIsSmall) {
  const Plan plan = plan_of_preset("llama-3.1-405b", 512, 3, 1, Recompute::kFull);
  EXPECT_LT(plan_to_text(plan).size(), kMostPlanBytes.count());
}

TEST(MemoryLayout, PersistentBuffersDoNotMoveWithBatchOrSequence) {
  const auto offsets = [](std::uint64_t micro_batch, std::uint64_t seq) {
    const Plan plan = testing::make_test_plan(testing::gpt2_config(),
                                              {.stage = 2, .micro_batch = micro_batch, .seq = seq, .fixed = {}});
    std::vector<std::pair<std::string, Bytes>> result;
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.always && buffer.name != "rotary table") result.emplace_back(buffer.name, buffer.offset);
    }
    return result;
  };
  EXPECT_EQ(offsets(1, 8), offsets(4, 32));
}

}  // namespace
}  // namespace zeroplan::planner
