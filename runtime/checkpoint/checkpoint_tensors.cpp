#include "runtime/checkpoint/checkpoint_tensors.h"

#include <algorithm>

#include "models/load_model.h"

namespace zeroplan::runtime {

CheckpointTensors::CheckpointTensors(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint),
      model_(models::build_model(checkpoint.config(), checkpoint.model_name())),
      partition_(planner::make_partition(model_, checkpoint.ranks(), checkpoint.persistence_threshold())) {}

Bytes CheckpointTensors::shard_bytes() const {
  Bytes most;
  for (const planner::ShardGroup& group : partition_.groups) most = std::max(most, group.shard * DType::kFp32);
  return most;
}

void CheckpointTensors::read(std::size_t parameter, Elements first, std::span<float> target) {
  const planner::ParameterPlace& place = partition_.places.at(parameter);
  const planner::ShardGroup& group = partition_.groups[place.group];
  const std::uint64_t shard = group.shard.count();
  for (std::size_t done = 0; done < target.size();) {
    const std::uint64_t at = (place.offset + first).count() + done;
    const std::uint64_t rank = at / shard;
    if (held_.empty() || held_group_ != place.group || held_rank_ != rank) {
      held_ = checkpoint_.read_shard(rank, group.name, "weights", group.shard);
      held_group_ = place.group;
      held_rank_ = rank;
    }
    const std::size_t n = std::min<std::uint64_t>(target.size() - done, shard - at % shard);
    std::copy_n(held_.begin() + static_cast<std::ptrdiff_t>(at % shard), n,
                target.begin() + static_cast<std::ptrdiff_t>(done));
    done += n;
  }
}

}  // namespace zeroplan::runtime
