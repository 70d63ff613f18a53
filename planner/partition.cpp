#include "planner/partition.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace zeroplan::planner {
namespace {

/// What decides the group of a parameter: the units that use it, and whether it is small.
struct GroupKey {
  std::vector<std::size_t> units;
  bool is_small = false;
  auto operator<=>(const GroupKey&) const = default;
};

std::vector<std::vector<std::size_t>> users_of_parameters(const models::Model& model) {
  std::vector<std::vector<std::size_t>> users(model.parameters.size());
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const std::size_t p : model.units[u].parameters) users[p].push_back(u);
  }
  return users;
}

std::string group_name(const models::Model& model, const GroupKey& key) {
  const std::string& unit = model.units[key.units.front()].name;
  if (key.units.size() > 1) return fmt::format("tied {}{}", unit, key.is_small ? " small" : "");
  return key.is_small ? unit + " small" : unit;
}

void finish_group(ShardGroup& group, std::uint64_t ranks) {
  const PartitionedTensor& last = group.tensors.back();
  const Elements used = last.offset + last.elements;
  const std::uint64_t shard = divide_up(used.count(), ranks);
  group.shard = round_up(Elements(shard), kTensorAlignment);
  group.padded = group.shard * ranks;
}

}  // namespace

Partition make_partition(const models::Model& model, std::uint64_t ranks, std::uint64_t persistence_threshold) {
  Partition partition;
  partition.ranks = ranks;
  partition.places.resize(model.parameters.size());
  partition.groups_of_unit.resize(model.units.size());
  const auto users = users_of_parameters(model);
  std::map<GroupKey, std::size_t> index;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    ZP_CHECK(!users[p].empty());
    const Elements elements = model.parameters[p].shape.elements();
    GroupKey key{users[p], elements.count() <= persistence_threshold};
    const auto [it, is_new] = index.try_emplace(key, partition.groups.size());
    if (is_new) {
      ShardGroup group;
      group.name = group_name(model, key);
      group.units = key.units;
      group.is_small = key.is_small;
      partition.groups.push_back(std::move(group));
    }
    ShardGroup& group = partition.groups[it->second];
    Elements offset;
    if (!group.tensors.empty()) {
      offset = round_up(group.tensors.back().offset + group.tensors.back().elements, kTensorAlignment);
    }
    group.tensors.push_back({p, offset, elements});
    partition.places[p] = {it->second, offset, elements};
  }
  for (std::size_t g = 0; g < partition.groups.size(); ++g) {
    finish_group(partition.groups[g], ranks);
    for (const std::size_t u : partition.groups[g].units) partition.groups_of_unit[u].push_back(g);
  }
  return partition;
}

}  // namespace zeroplan::planner
