#include "planner/packing/weighted_descents.h"

#include <gtest/gtest.h>

namespace zeroplan::planner {
namespace {

/// Buffers cut out of a full rectangle of time and addresses, so that a packing without waste exists.
class Jigsaw {
 public:
  Jigsaw(std::uint32_t time, std::uint64_t height, std::uint64_t seed) : random_(seed) { cut(0, time, 0, height); }

  ConflictInstance instance() const {
    ConflictInstance result;
    for (std::uint32_t b = 0; b < pieces_.size(); ++b) {
      result.sizes.push_back(pieces_[b].end - pieces_[b].begin);
      result.stays.push_back({b, pieces_[b].first, pieces_[b].last - 1});
    }
    result.conflicts =
        conflict_lists(static_cast<std::uint32_t>(pieces_.size()), [&](std::uint32_t i, std::uint32_t j) {
          return pieces_[i].first < pieces_[j].last && pieces_[j].first < pieces_[i].last;
        });
    return result;
  }

 private:
  struct Piece {
    std::uint32_t first, last;
    std::uint64_t begin, end;
  };

  void cut(std::uint32_t first, std::uint32_t last, std::uint64_t begin, std::uint64_t end) {
    const bool in_time = random_() % 2 == 0;
    if (last - first < 3 && end - begin < 30) {
      pieces_.push_back({first, last, begin, end});
    } else if (last - first >= 3 && (in_time || end - begin < 30)) {
      const auto middle = static_cast<std::uint32_t>(first + 1 + random_() % (last - first - 1));
      cut(first, middle, begin, end);
      cut(middle, last, begin, end);
    } else {
      const std::uint64_t middle = begin + 1 + random_() % (end - begin - 1);
      cut(first, last, begin, middle);
      cut(first, last, middle, end);
    }
  }

  std::mt19937_64 random_;
  std::vector<Piece> pieces_;
};

TEST(WeightedDescents, PackingsAreValidAndWithinTheCapacity) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ConflictInstance instance = Jigsaw(8, 100, seed).instance();
    const ConflictIndex index(instance);
    const auto cover = cover_by_cliques(index, UINT64_MAX);
    for (const std::uint64_t capacity : {100, 115}) {
      const auto offsets = WeightedDescents(index, cover).find(capacity, 2'000'000);
      if (!offsets) continue;
      ++found;
      for (std::uint32_t b = 0; b < index.count(); ++b) {
        EXPECT_LE((*offsets)[b] + index.size(b), capacity);
        for (const std::uint32_t other : index.neighbours(b)) {
          EXPECT_TRUE((*offsets)[b] + index.size(b) <= (*offsets)[other] ||
                      (*offsets)[other] + index.size(other) <= (*offsets)[b]);
        }
      }
    }
  }
  EXPECT_GE(found, 30);
}

TEST(WeightedDescents, FindsNothingBelowTheHeaviestClique) {
  const ConflictInstance instance = Jigsaw(8, 100, 3).instance();
  const ConflictIndex index(instance);
  const auto cover = cover_by_cliques(index, UINT64_MAX);
  EXPECT_FALSE(WeightedDescents(index, cover).find(99, 100'000).has_value());
}

TEST(WeightedDescents, EqualInputsGiveEqualPackings) {
  const ConflictInstance instance = Jigsaw(12, 200, 9).instance();
  const ConflictIndex index(instance);
  const auto cover = cover_by_cliques(index, UINT64_MAX);
  EXPECT_EQ(WeightedDescents(index, cover).find(240, 1'000'000), WeightedDescents(index, cover).find(240, 1'000'000));
}

TEST(WeightedDescents, EmptyBuffersTakeNoPart) {
  ConflictInstance instance;
  instance.sizes = {0, 8};
  instance.conflicts = {{1}, {0}};
  instance.stays = {{0, 0, 1}, {1, 0, 1}};
  const ConflictIndex index(instance);
  const auto cover = cover_by_cliques(index, UINT64_MAX);
  EXPECT_EQ(WeightedDescents(index, cover).find(8, 1000), (std::vector<std::uint64_t>{0, 0}));
}

}  // namespace
}  // namespace zeroplan::planner
