#include "planner/packing/clique_cover.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace zeroplan::planner {
namespace {

ConflictInstance intervals(std::mt19937_64& random, std::uint32_t count) {
  ConflictInstance instance;
  for (std::uint32_t b = 0; b < count; ++b) {
    const auto first = static_cast<std::uint32_t>(random() % 40);
    instance.stays.push_back({b, first, first + static_cast<std::uint32_t>(random() % 12)});
    instance.sizes.push_back(1 + random() % 50);
  }
  instance.conflicts = conflict_lists(count, [&](std::uint32_t i, std::uint32_t j) {
    return instance.stays[i].first <= instance.stays[j].last && instance.stays[j].first <= instance.stays[i].last;
  });
  return instance;
}

bool is_clique(const ConflictInstance& instance, const std::vector<std::uint32_t>& members) {
  for (const std::uint32_t a : members) {
    for (const std::uint32_t b : members) {
      if (a != b && !std::binary_search(instance.conflicts[a].begin(), instance.conflicts[a].end(), b)) return false;
    }
  }
  return true;
}

TEST(CliqueCover, HoldsWhatIsLiveAtFullPositionsWhereLivesAreIntervals) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    const ConflictInstance instance = intervals(random, 50);
    const ConflictIndex index(instance);
    const auto cover = cover_by_cliques(index, UINT64_MAX);
    std::uint64_t heaviest = 0;
    for (const SeatedClique& seated : cover) {
      heaviest = std::max(heaviest, seated.clique.weight);
      EXPECT_TRUE(is_clique(instance, seated.clique.members));
      std::uint64_t weight = 0;
      for (const std::uint32_t b : seated.clique.members) weight += instance.sizes[b];
      EXPECT_EQ(seated.clique.weight, weight);
    }
    for (std::uint32_t position = 0; position < 52; ++position) {
      std::vector<std::uint32_t> live;
      std::uint64_t weight = 0;
      for (const Stay& stay : instance.stays) {
        if (position < stay.first || stay.last < position) continue;
        live.push_back(stay.buffer);
        weight += instance.sizes[stay.buffer];
      }
      if (weight * 2 < heaviest) continue;
      EXPECT_TRUE(std::any_of(cover.begin(), cover.end(), [&](const SeatedClique& seated) {
        return std::includes(seated.clique.members.begin(), seated.clique.members.end(), live.begin(), live.end());
      }));
    }
  }
}

TEST(CliqueCover, FindsTheLaterStayOfABufferAndCliquesBesideThePositions) {
  // At position 0 only buffer 0 is live; its second stay meets 1, and 2 conflicts with both without being live there.
  ConflictInstance instance;
  instance.sizes = {4, 6, 8};
  instance.conflicts = {{1, 2}, {0, 2}, {0, 1}};
  instance.stays = {{0, 0, 0}, {0, 5, 6}, {1, 5, 6}, {2, 7, 7}};
  const auto cover = cover_by_cliques(ConflictIndex(instance), UINT64_MAX);
  EXPECT_TRUE(std::any_of(cover.begin(), cover.end(), [](const auto& seated) { return seated.clique.weight == 18; }));
}

TEST(CliqueCover, HeaviestPositionsComeFirstWhenWorkIsShort) {
  std::mt19937_64 random(6);
  const ConflictInstance instance = intervals(random, 60);
  const ConflictIndex index(instance);
  const auto all = cover_by_cliques(index, UINT64_MAX);
  const auto few = cover_by_cliques(index, 0);
  ASSERT_FALSE(few.empty());
  EXPECT_LT(few.size(), all.size());
  const auto lighter = [](const auto& a, const auto& b) { return a.clique.weight < b.clique.weight; };
  EXPECT_EQ(std::max_element(few.begin(), few.end(), lighter)->clique.weight,
            std::max_element(all.begin(), all.end(), lighter)->clique.weight);
}

}  // namespace
}  // namespace zeroplan::planner
