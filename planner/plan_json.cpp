#include "planner/plan_json.h"

#include <fmt/format.h>

#include "planner/program_json.h"

namespace zeroplan::planner {
namespace {

Json tier_json(const TierPlan& tier) {
  return {{"budget_bytes", tier.budget ? Json(tier.budget->count()) : Json(nullptr)},
          {"alignment", tier.alignment},
          {"arena_bytes", tier.arena.count()},
          {"lower_bound_bytes", tier.lower_bound.count()},
          {"lower_bound_holders", tier.lower_bound_holders},
          {"op_lower_bound_bytes", tier.op_lower_bound.count()}};
}

Json buffer_json(const Buffer& buffer) {
  return {{"id", buffer.id},
          {"name", buffer.name},
          {"tier", name_of(buffer.tier)},
          {"offset", buffer.offset.count()},
          {"bytes", buffer.bytes.count()},
          {"live", buffer.always ? Json("always") : Json{{"first", buffer.first}, {"last", buffer.last}}}};
}

Json accesses_json(const Plan& plan, const std::vector<Access>& accesses) {
  Json list = Json::array();
  for (const Access& access : accesses) {
    if (access.offset == Bytes() && access.bytes == plan.buffers[access.buffer].bytes) {
      list.push_back(access.buffer);
    } else {
      list.push_back({access.buffer, access.offset.count(), access.bytes.count()});
    }
  }
  return list;
}

Json task_json(const Plan& plan, const Task& task) {
  return {{"id", task.id},
          {"key", task.key},
          {"kind", name_of(task.kind)},
          {"lane", name_of(task.lane)},
          {"unit", task.unit == kNoIndex ? Json(nullptr) : Json(plan.model.units[task.unit].name)},
          {"program", task.program == kNoIndex ? Json(nullptr) : Json(plan.programs[task.program].name)},
          {"frame", task.frame == kNoBuffer ? Json(nullptr) : Json(task.frame)},
          {"reads", accesses_json(plan, task.reads)},
          {"writes", accesses_json(plan, task.writes)},
          {"waits", task.waits},
          {"waits_previous", task.waits_previous}};
}

}  // namespace

Json plan_to_json(const Plan& plan) {
  Json doc = {{"format", "zeroplan/plan"},
              {"version", 1},
              {"model",
               {{"name", plan.model.name},
                {"family", plan.model.family},
                {"source", plan.model.source},
                {"config", plan.model.config}}},
              {"machine", plan.machine.to_json()},
              {"training", plan.training.to_json()},
              {"strategy", plan.strategy.to_json()},
              {"comm", name_of(plan.training.comm)},
              {"backend", name_of(plan.training.backend)},
              {"gpus", plan.training.gpus},
              {"nodes", plan.training.nodes}};
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    doc["tiers"][std::string(name_of(tier))] = tier_json(plan.tier(tier));
  }
  doc["lanes"] = Json::array();
  for (const Lane lane : plan.lanes) doc["lanes"].push_back(name_of(lane));
  doc["buffers"] = Json::array();
  for (const Buffer& buffer : plan.buffers) doc["buffers"].push_back(buffer_json(buffer));
  doc["steps"] = Json::array();
  for (const Step& step : plan.steps) {
    Json tasks = Json::array();
    for (const Task& task : step.tasks) tasks.push_back(task_json(plan, task));
    doc["steps"].push_back({{"name", step.name}, {"tasks", std::move(tasks)}});
  }
  doc["programs"] = Json::array();
  for (const models::Program& program : plan.programs) doc["programs"].push_back(program_to_json(program));
  return doc;
}

std::string plan_to_text(const Plan& plan) {
  std::string text = plan_to_json(plan).dump() + "\n";
  if (text.size() > kMostPlanBytes.count()) {
    throw Error(ErrorCode::kUsage, fmt::format("the plan file would have {} bytes, expected at most {}", text.size(),
                                               kMostPlanBytes.count()))
        .hint("raise --reduce-bucket-size, --allgather-bucket-size or --sub-group-size");
  }
  return text;
}

}  // namespace zeroplan::planner
