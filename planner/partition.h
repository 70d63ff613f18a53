// Who owns which elements. Purpose: one partition rule at every stage: each ShardGroup is one flat range of aligned
// tensors, padded to equal shards, so a group is one in-place collective and a rank appears nowhere else. Main types:
// PartitionedTensor, ShardGroup, Partition. Depends on models.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"

namespace zeroplan::planner {

/// Tensors begin at multiples of so many elements, and shards have a multiple of it: 64 bytes in every element type.
constexpr std::uint64_t kTensorAlignment = 64;

/// A parameter inside its group.
struct PartitionedTensor {
  std::size_t parameter = 0;  ///< index into Model::parameters
  Elements offset;            ///< within the group
  Elements elements;
};

/// Parameters that are gathered, reduced and updated together.
struct ShardGroup {
  std::string name;  ///< "block 3", "block 3 small", "tied embedding"
  std::vector<PartitionedTensor> tensors;
  std::vector<std::size_t>
      units;              ///< that use it, ascending; the gradients of several are summed on the rank, then reduced
  Elements padded;        ///< ranks x shard
  Elements shard;         ///< of each rank
  bool is_small = false;  ///< every tensor is at most the persistence threshold: stays gathered at stage 3
};

/// Where a parameter lies.
struct ParameterPlace {
  std::size_t group = 0;
  Elements offset;
  Elements elements;
};

/// The groups of a model over so many ranks.
struct Partition {
  std::uint64_t ranks = 1;
  std::vector<ShardGroup> groups;
  std::vector<ParameterPlace> places;                    ///< per parameter of the model
  std::vector<std::vector<std::size_t>> groups_of_unit;  ///< per unit of the model, ascending

  /// The elements of `group` that rank `rank` owns begin here.
  Elements shard_begin(std::size_t group, std::uint64_t rank) const { return groups[group].shard * rank; }
};

/// Groups the parameters of each unit: one group of those above the persistence threshold, one of the small ones, and
/// one for each set of parameters that several units share. The rule does not look at the stage, so that sums of shards
/// are equal at all stages.
Partition make_partition(const models::Model& model, std::uint64_t ranks, std::uint64_t persistence_threshold);

}  // namespace zeroplan::planner
