#include "planner/run_record.h"

namespace zeroplan::planner {
namespace {

Json holders_json(const std::vector<HolderRecord>& holders) {
  Json list = Json::array();
  for (const HolderRecord& holder : holders) list.push_back({{"name", holder.name}, {"bytes", holder.bytes.count()}});
  return list;
}

}  // namespace

Json RunRecord::to_json() const {
  Json document = {{"source", source == RecordSource::kSimulated ? "simulated" : "measured"},
                   {"gpus", gpus},
                   {"step_s", step.value()},
                   {"tokens_per_s", tokens_per_s},
                   {"exposed_comm_s", exposed_comm.value()}};
  Json lane_list = Json::object();
  for (const auto& [l, name] : kNamesOf<Lane>) {
    if (lane(l).tasks == 0) continue;
    lane_list[std::string(name)] = {{"busy_s", lane(l).busy.value()}, {"tasks", lane(l).tasks}};
  }
  document["lanes"] = std::move(lane_list);
  document["moved_bytes"] = {{"gather", moved.gather.count()},
                             {"reduce", moved.reduce.count()},
                             {"h2d", moved.h2d.count()},
                             {"d2h", moved.d2h.count()},
                             {"disk_read", moved.disk_read.count()},
                             {"disk_write", moved.disk_write.count()}};
  Json tier_list = Json::object();
  for (const auto& [t, name] : kNamesOf<Tier>) {
    const TierRecord& record = tier(t);
    tier_list[std::string(name)] = {{"planned_bytes", record.planned.count()},
                                    {"used_bytes", record.used ? Json(record.used->count()) : Json(nullptr)},
                                    {"holders", holders_json(record.holders)}};
  }
  document["tiers"] = std::move(tier_list);
  return document;
}

void count_moved(const Plan& plan, const Task& task, MovedBytes& moved) {
  const std::uint64_t ranks = plan.partition.ranks;
  if (const auto* work = std::get_if<CollectiveWork>(&task.work); work != nullptr && ranks > 1) {
    const Bytes others = Elements(work->elements(plan.partition) / ranks * (ranks - 1)) * work->dtype;
    switch (work->kind) {
      case CollectiveKind::kAllGather:
        moved.gather += others;
        break;
      case CollectiveKind::kReduceScatter:
        moved.reduce += others;
        break;
      case CollectiveKind::kAllReduce:
        moved.reduce += others * 2;
        break;
    }
  }
}

}  // namespace zeroplan::planner
