// What a plan holds for each optimizer, and that a reader misses what is not there.
#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/plan_json.h"
#include "planner/verify.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::planner {
namespace {

using testing::make_test_plan;
using testing::PlanSettings;

std::vector<std::string> update_tasks(const Plan& plan) {
  std::vector<std::string> keys;
  for (const Task& task : plan.find_step("only")->tasks) {
    if (task.key.starts_with("moments/") || task.key.starts_with("update/") ||
        task.key.find("tensor-norms") != std::string::npos || task.key == "trust-ratios") {
      keys.push_back(task.key);
    }
  }
  return keys;
}

Bytes bytes_of(const Plan& plan, std::string_view part) {
  Bytes sum;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.name.find(part) != std::string::npos) sum += buffer.bytes;
  }
  return sum;
}

TEST(OptimizerPlan, HasAsManyMomentsAsTheOptimizer) {
  Elements parameters;
  for (const ShardGroup& group : make_test_plan(testing::llama_config(), {.stage = 1}).partition.groups) {
    parameters += group.shard;
  }
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdam, OptimizerKind::kSgd,
                                   OptimizerKind::kLion, OptimizerKind::kAdagrad, OptimizerKind::kLamb}) {
    const Plan plan = make_test_plan(testing::llama_config(), {.stage = 1, .optimizer = kind});
    EXPECT_EQ(bytes_of(plan, " / moment "), parameters * DType::kFp32 * moment_count(kind)) << name_of(kind);
    EXPECT_TRUE(verify(plan).empty()) << name_of(kind);
  }
}

TEST(OptimizerPlan, LambGathersTheNormsOfItsTensorsBeforeItUpdates) {
  PlanSettings settings{.ranks = 3, .optimizer = OptimizerKind::kLamb};
  settings.fixed.sub_group_size = 10'000;
  for (std::uint64_t stage = 0; stage <= 3; ++stage) {
    settings.stage = stage;
    const Plan plan = make_test_plan(testing::llama_config(), settings);
    EXPECT_TRUE(verify(plan).empty()) << "stage " << stage;
    const auto keys = update_tasks(plan);
    const auto count = [&](std::string_view part) {
      return std::count_if(keys.begin(), keys.end(), [&](const auto& key) { return key.starts_with(part); });
    };
    EXPECT_GT(count("moments/"), 1);
    EXPECT_EQ(count("moments/"), count("update/"));
    const std::vector<std::string> middle = {"tensor-norms", "gather-tensor-norms", "trust-ratios"};
    EXPECT_TRUE(std::equal(middle.begin(), middle.end(), keys.begin() + count("moments/")));
    EXPECT_EQ(bytes_of(plan, "tensor norms"), kTensorNormBytes * plan.model.parameters.size() * 3);
    EXPECT_EQ(bytes_of(plan, "trust ratios"), kTrustRatioBytes * plan.model.parameters.size());
  }
}

TEST(OptimizerPlan, AFileWithoutTheRatiosIsRefused) {
  const Plan plan = make_test_plan(testing::llama_config(), {.stage = 2, .optimizer = OptimizerKind::kLamb});
  Json document = plan_to_json(plan);
  for (Json& step : document["steps"]) {
    Json kept = Json::array();
    for (const Json& task : step["tasks"]) {
      if (task["key"] != "trust-ratios") kept.push_back(task);
    }
    step["tasks"] = kept;
  }
  const std::string path = ::testing::TempDir() + "/zeroplan-without-ratios.json";
  std::ofstream(path) << document.dump();
  try {
    load_plan(path);
    FAIL() << "read a plan that lacks a task";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("lacks the task trust-ratios"), std::string::npos) << error.message();
  }
}

TEST(OptimizerPlan, RefusesOptimizersThatNoNativePlanHas) {
  for (const OptimizerKind kind : {OptimizerKind::kAdafactor, OptimizerKind::kAdamW8bit}) {
    try {
      make_test_plan(testing::llama_config(), {.optimizer = kind});
      FAIL() << name_of(kind);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(error.message().find("adamw, adam, sgd, lion, adagrad or lamb"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace zeroplan::planner
