#include "planner/verify.h"

#include <functional>

#include <gtest/gtest.h>

#include "planner/plan_json.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::planner {
namespace {

using testing::make_test_plan;
using testing::PlanSettings;

TEST(Verify, EveryStageFamilyAndAccumulationVerifies) {
  for (const Json& config :
       {testing::llama_config(), testing::qwen2_tied_config(), testing::qwen3_config(), testing::gpt2_config()}) {
    for (std::uint64_t stage = 0; stage <= 3; ++stage) {
      for (const std::uint64_t ranks : {1, 2, 3, 5}) {
        for (const std::uint64_t accumulation : {1, 2, 3, 4}) {
          for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
            const Plan plan = make_test_plan(
                config,
                {.ranks = ranks, .stage = stage, .accumulation = accumulation, .recompute = recompute, .fixed = {}});
            const auto problems = verify(plan);
            EXPECT_TRUE(problems.empty()) << config["model_type"] << " stage " << stage << " ranks " << ranks
                                          << " accumulation " << accumulation << ": " << problems.front();
          }
        }
      }
    }
  }
}

/// A plan file's task by step and key.
Json& task(Json& doc, std::string_view step, std::string_view key) {
  for (Json& s : doc["steps"]) {
    if (s["name"] != step) continue;
    for (Json& t : s["tasks"]) {
      if (t["key"] == key) return t;
    }
  }
  throw std::runtime_error("no task " + std::string(key));
}

Json& buffer(Json& doc, std::string_view name) {
  for (Json& b : doc["buffers"]) {
    if (b["name"] == name) return b;
  }
  throw std::runtime_error("no buffer " + std::string(name));
}

Json& program(Json& doc, std::string_view name) {
  for (Json& p : doc["programs"]) {
    if (p["name"] == name) return p;
  }
  throw std::runtime_error("no program " + std::string(name));
}

void drop_task(Json& doc, std::string_view step, std::string_view key) {
  for (Json& s : doc["steps"]) {
    if (s["name"] != step) continue;
    Json& tasks = s["tasks"];
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i]["key"] == key) {
        tasks.erase(i);
        return;
      }
    }
  }
  throw std::runtime_error("no task " + std::string(key));
}

/// A way in which a plan file may be wrong.
struct Corruption {
  std::string name;
  std::function<void(Json&)> apply;
};

std::vector<Corruption> corruptions() {
  return {
      {"lacks a reduction", [](Json& d) { drop_task(d, "only", "reduce/bucket 1"); }},
      {"lacks a gather", [](Json& d) { drop_task(d, "only", "gather/block 1/forward"); }},
      {"lacks an update", [](Json& d) { drop_task(d, "only", "update/0"); }},
      {"lacks the gradient norm", [](Json& d) { drop_task(d, "only", "norm"); }},
      {"lacks a load", [](Json& d) { drop_task(d, "init", "load/block 2"); }},
      {"lacks a whole step", [](Json& d) { d["steps"].erase(1); }},
      {"has a task twice",
       [](Json& d) {
         Json copy = task(d, "only", "release/block 0/forward");
         copy["id"] = 4'000'000'000u;
         d["steps"][1]["tasks"].push_back(copy);
       }},
      {"has a foreign task",
       [](Json& d) {
         Json copy = task(d, "only", "release/block 0/forward");
         copy["id"] = 4'000'000'000u;
         copy["key"] = "release/everything";
         d["steps"][1]["tasks"].push_back(copy);
       }},
      {"kind changed", [](Json& d) { task(d, "only", "reduce/bucket 0")["kind"] = "gather"; }},
      {"lane changed", [](Json& d) { task(d, "only", "reduce/bucket 0")["lane"] = "compute"; }},
      {"unit changed", [](Json& d) { task(d, "only", "forward/block 1")["unit"] = "block 2"; }},
      {"program changed", [](Json& d) { task(d, "only", "forward/block 1")["program"] = "block backward"; }},
      {"frame changed", [](Json& d) { task(d, "only", "forward/block 1")["frame"] = 0; }},
      {"read dropped", [](Json& d) { task(d, "only", "reduce/bucket 0")["reads"].erase(0); }},
      {"write redirected", [](Json& d) { task(d, "only", "reduce/bucket 0")["writes"][0] = 0; }},
      {"wait dropped: a gather before the compute task that bounds it, then its buffer's reader",
       [](Json& d) { task(d, "only", "forward/block 1")["waits"] = Json::array(); }},
      {"wait for a reduction dropped", [](Json& d) { task(d, "only", "norm")["waits"] = Json::array(); }},
      {"wait for the step before dropped",
       [](Json& d) { task(d, "only", "gather/updated bucket 0")["waits"] = Json::array(); }},
      {"wait for a later task", [](Json& d) { task(d, "only", "forward/embedding")["waits"] = {4'000'000'000u}; }},
      {"wait for an unknown key", [](Json& d) { task(d, "only", "forward/embedding")["waits_previous"] = {"nobody"}; }},
      {"phase waits for a step before", [](Json& d) { task(d, "save", "save/block 0")["waits_previous"] = {"norm"}; }},
      {"ids do not grow", [](Json& d) { task(d, "only", "norm")["id"] = 0; }},
      {"buffers overlap",
       [](Json& d) { buffer(d, "block 1 / saved")["offset"] = buffer(d, "block 0 / saved")["offset"]; }},
      {"persistent buffers overlap",
       [](Json& d) { buffer(d, "block 1 / moment 1")["offset"] = buffer(d, "block 0 / moment 1")["offset"]; }},
      {"buffer not aligned",
       [](Json& d) { buffer(d, "tokens")["offset"] = buffer(d, "tokens")["offset"].get<int>() + 4; }},
      {"buffer beyond the arena", [](Json& d) { buffer(d, "tokens")["offset"] = 1 << 30; }},
      {"buffer too small", [](Json& d) { buffer(d, "block 1 / saved")["bytes"] = 64; }},
      {"buffer too large", [](Json& d) { buffer(d, "block 1 / saved")["bytes"] = 1 << 28; }},
      {"buffer on another tier", [](Json& d) { buffer(d, "block 1 / saved")["tier"] = "host"; }},
      {"buffer declared persistent", [](Json& d) { buffer(d, "block 1 / saved")["live"] = "always"; }},
      {"live range cut",
       [](Json& d) { buffer(d, "block 1 / saved")["live"]["last"] = buffer(d, "block 1 / saved")["live"]["first"]; }},
      {"arena too small", [](Json& d) { d["tiers"]["device"]["arena_bytes"] = 64; }},
      {"alignment changed", [](Json& d) { d["tiers"]["device"]["alignment"] = 1; }},
      {"budget invented", [](Json& d) { d["tiers"]["device"]["budget_bytes"] = 1; }},
      {"bound too high", [](Json& d) { d["tiers"]["device"]["lower_bound_bytes"] = 1 << 30; }},
      {"op-level bound too high", [](Json& d) { d["tiers"]["device"]["op_lower_bound_bytes"] = 1 << 30; }},
      {"bound's holder twice",
       [](Json& d) {
         Json& holders = d["tiers"]["device"]["lower_bound_holders"];
         holders.push_back(holders[0]);
       }},
      {"frame too small", [](Json& d) { program(d, "block backward")["frame_bytes"] = 64; }},
      {"temporaries overlap",
       [](Json& d) {
         for (Json& t : program(d, "block backward")["temporaries"]) t["offset"] = 0;
       }},
      {"another strategy", [](Json& d) { d["strategy"]["stage"] = 1; }},
      {"another model", [](Json& d) { d["model"]["config"]["num_hidden_layers"] = 4; }},
      {"negative size", [](Json& d) { buffer(d, "tokens")["offset"] = -64; }},
      {"text for a number", [](Json& d) { d["strategy"]["stage"] = "three"; }},
      {"another format", [](Json& d) { d["format"] = "zeroplan/machine"; }},
  };
}

TEST(Verify, RejectsEveryKindOfCorruption) {
  const Plan plan = make_test_plan(testing::llama_config(), {.stage = 3, .fixed = {}});
  const Json good = plan_to_json(plan);
  EXPECT_TRUE(verify(plan_from_json(good, "plan.json")).empty());
  const auto kinds = corruptions();
  EXPECT_GE(kinds.size(), 20u);
  for (const Corruption& corruption : kinds) {
    Json bad = good;
    corruption.apply(bad);
    ASSERT_TRUE(bad != good) << corruption.name;
    bool rejected = false;
    try {
      rejected = !verify(plan_from_json(bad, "plan.json")).empty();
    } catch (const Error& e) {
      rejected = true;
      EXPECT_NE(e.code(), ErrorCode::kInternal) << corruption.name << ": " << e.message();
    }
    EXPECT_TRUE(rejected) << corruption.name;
  }
}

TEST(PlanJson, RoundTripsByteForByte) {
  for (std::uint64_t stage = 0; stage <= 3; ++stage) {
    const Plan plan =
        make_test_plan(testing::qwen2_tied_config(), {.ranks = 3, .stage = stage, .accumulation = 3, .fixed = {}});
    const std::string text = plan_to_text(plan);
    EXPECT_EQ(plan_to_text(plan_from_json(Json::parse(text), "plan.json")), text);
  }
}

TEST(PlanJson, SameInputsGiveTheSameBytes) {
  const PlanSettings settings{.ranks = 4, .stage = 3, .fixed = {}};
  EXPECT_EQ(plan_to_text(make_test_plan(testing::gpt2_config(), settings)),
            plan_to_text(make_test_plan(testing::gpt2_config(), settings)));
}

}  // namespace
}  // namespace zeroplan::planner
