#include "runtime/checkpoint/partition_json.h"

namespace zeroplan::runtime {

Json partition_json(const planner::Plan& plan) {
  Json groups = Json::array();
  for (const planner::ShardGroup& group : plan.partition.groups) {
    Json tensors = Json::array();
    for (const planner::PartitionedTensor& tensor : group.tensors) {
      const models::Parameter& parameter = plan.model.parameters.at(tensor.parameter);
      tensors.push_back(
          {{"name", parameter.name}, {"shape", parameter.shape.extents()}, {"offset", tensor.offset.count()}});
    }
    groups.push_back({{"name", group.name}, {"shard", group.shard.count()}, {"tensors", std::move(tensors)}});
  }
  return {{"ranks", plan.partition.ranks},
          {"param_persistence_threshold", plan.strategy.param_persistence_threshold},
          {"groups", std::move(groups)}};
}

}  // namespace zeroplan::runtime
