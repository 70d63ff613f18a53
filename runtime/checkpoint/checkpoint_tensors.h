// Whole tensors out of a sharded checkpoint. Main type: CheckpointTensors.
#pragma once

#include <span>

#include "models/model.h"
#include "runtime/checkpoint/checkpoint.h"

namespace zeroplan::runtime {

/// Reads parameters of a checkpoint by their index in its model, a shard at a time: no more than one shard of one group
/// is held.
class CheckpointTensors {
 public:
  explicit CheckpointTensors(const Checkpoint& checkpoint);

  const models::Model& model() const { return model_; }
  /// Elements [first, first + target.size()) of a parameter. \throws as Checkpoint::read_shard
  void read(std::size_t parameter, Elements first, std::span<float> target);
  /// The largest shard, as held.
  Bytes shard_bytes() const;

 private:
  const Checkpoint& checkpoint_;
  models::Model model_;
  planner::Partition partition_;
  std::size_t held_group_ = 0;
  std::uint64_t held_rank_ = 0;
  std::vector<float> held_;
};

}  // namespace zeroplan::runtime
