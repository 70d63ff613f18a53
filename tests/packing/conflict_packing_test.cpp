#include <algorithm>

#include <gtest/gtest.h>

#include "models/core/error.h"
#include "tests/packing/packing_check.h"
#include "tests/packing/training_instance.h"

namespace zeroplan::planner {
namespace {

std::uint64_t weight_of_clique(const ConflictInstance& instance, std::span<const std::uint32_t> members) {
  std::uint64_t weight = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    weight += instance.sizes[members[i]];
    const auto& row = instance.conflicts[members[i]];
    for (std::size_t j = i + 1; j < members.size(); ++j)
      EXPECT_TRUE(std::binary_search(row.begin(), row.end(), members[j]));
  }
  return weight;
}

void expect_sound(const ConflictInstance& instance, const ConflictPacking& packing) {
  EXPECT_TRUE(is_valid(instance, packing.offsets));
  EXPECT_EQ(packing.clique_weight, weight_of_clique(instance, packing.clique));
  EXPECT_GE(packing.height, packing.clique_weight);
}

TEST(HeaviestClique, IsTheMostLiveWhereLivesAreIntervals) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    const auto buffers = random_buffers(random, 60, 40, 50);
    const ConflictInstance instance = listed(buffers);
    const Clique clique = heaviest_clique(instance);
    EXPECT_EQ(clique.weight, most_live(buffers));
    EXPECT_EQ(clique.weight, weight_of_clique(instance, clique.members));
  }
}

TEST(HeaviestClique, LooksBeyondPositions) {
  // Positions do not overlap at all, yet all three conflict.
  ConflictInstance instance;
  instance.sizes = {5, 7, 9};
  instance.conflicts = {{1, 2}, {0, 2}, {0, 1}};
  instance.stays = {{0, 0, 1}, {1, 2, 3}, {2, 4, 5}};
  EXPECT_EQ(heaviest_clique(instance).weight, 21u);
}

TEST(ConflictPacking, IsSoundOnRandomGraphsAndNotBelowTheOptimum) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 60; ++round) {
    ConflictInstance instance;
    constexpr std::uint32_t kCount = 7;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      instance.sizes.push_back(random() % 9);
      instance.stays.push_back({i, i, i + static_cast<std::uint32_t>(random() % 3)});
    }
    instance.conflicts = conflict_lists(kCount, [&](std::uint32_t, std::uint32_t) { return random() % 2 == 0; });
    const ConflictPacking packing = pack_conflicts(instance);
    expect_sound(instance, packing);
    EXPECT_GE(packing.height, lowest_by_trying_all(instance));
  }
}

TEST(ConflictPacking, PinnedBuffersStayAndTheRestGoesAround) {
  TrainingShape shape;
  shape.pinned = 4096;
  const ConflictInstance instance = training_instance(shape);
  const ConflictPacking packing = pack_conflicts(instance);
  expect_sound(instance, packing);
  EXPECT_EQ(packing.height, packing.clique_weight);
  EXPECT_EQ(packing.offsets[0], 0u);
}

TEST(ConflictPacking, RejectsPinnedBuffersOnOneAnother) {
  ConflictInstance instance = listed(std::vector<IntervalBuffer>{{0, 2, 10}, {1, 3, 10}});
  instance.pinned = {0, 5};
  EXPECT_THROW(pack_conflicts(instance), Error);
  instance.pinned = {0, 10};
  EXPECT_EQ(pack_conflicts(instance).height, 20u);
}

TEST(ConflictPacking, EqualInputsGiveEqualOutputs) {
  TrainingShape shape;
  shape.layers = 20;
  shape.gather_ahead = 2;
  const ConflictInstance instance = training_instance(shape);
  EXPECT_EQ(pack_conflicts(instance).offsets, pack_conflicts(instance).offsets);
}

struct NamedShape {
  const char* name;
  TrainingShape shape;
};

class TrainingPacking : public testing::TestWithParam<NamedShape> {};

TEST_P(TrainingPacking, MeetsTheBound) {
  const ConflictInstance instance = training_instance(GetParam().shape);
  const ConflictPacking packing = pack_conflicts(instance);
  expect_sound(instance, packing);
  EXPECT_EQ(packing.height, packing.clique_weight);
}

TEST(ConflictPacking, DeepGathersUnderRecomputeStayWithinOnePercent) {
  const ConflictInstance instance = training_instance({.layers = 48, .recompute = true, .gather_ahead = 2});
  const ConflictPacking packing = pack_conflicts(instance);
  expect_sound(instance, packing);
  EXPECT_LE(packing.height * 100, packing.clique_weight * 101);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TrainingPacking,
                         testing::Values(NamedShape{"plain", {}}, NamedShape{"deep", {.layers = 126, .saved_parts = 5}},
                                         NamedShape{"recompute", {.layers = 48, .recompute = true}},
                                         NamedShape{"parameters_stay", {.layers = 24, .gathered = 0}},
                                         NamedShape{"no_gradients", {.layers = 24, .gradient = 0, .gradient_shard = 0}},
                                         NamedShape{"large_shards",
                                                    {.layers = 24, .recompute = true, .gradient_shard = 600}},
                                         NamedShape{"large_head", {.layers = 12, .logits = 60'000, .embedding = 9'000}},
                                         NamedShape{"slow_reduction", {.layers = 36, .reduce_behind = 2}}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace zeroplan::planner
