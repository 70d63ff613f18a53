#include "planner/packing/clique_cover.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <unordered_set>

namespace zeroplan::planner {
namespace {

/// What may still join a clique, as one bit a buffer.
class Candidates {
 public:
  explicit Candidates(const ConflictIndex& index)
      : words_((index.count() + 63) / 64), rows_(index.count() * words_, 0) {
    for (std::uint32_t b = 0; b < index.count(); ++b) {
      for (const std::uint32_t other : index.neighbours(b)) rows_[b * words_ + other / 64] |= bit(other);
    }
    reset();
  }

  void reset() {
    left_.bits.assign(words_, ~std::uint64_t{0});
    left_.is_any = true;
  }
  bool has(std::uint32_t buffer) const { return (left_.bits[buffer / 64] & bit(buffer)) != 0; }
  bool is_any_left() const { return left_.is_any; }
  /// Keeps those that conflict with the buffer.
  void keep_neighbours(std::uint32_t buffer) {
    std::uint64_t any = 0;
    for (std::size_t w = 0; w < words_; ++w) any |= left_.bits[w] &= rows_[buffer * words_ + w];
    left_.is_any = any != 0;
  }
  std::size_t words() const { return words_; }

  struct Left {
    std::vector<std::uint64_t> bits;
    bool is_any = true;
  };
  const Left& left() const { return left_; }
  void set_left(const Left& left) { left_ = left; }

 private:
  static std::uint64_t bit(std::uint32_t buffer) { return std::uint64_t{1} << (buffer % 64); }

  std::size_t words_;
  std::vector<std::uint64_t> rows_;
  Left left_;
};

/// A position at which a stay begins, and which stays are in the past or the future there.
struct Moment {
  std::uint64_t weight = 0;  ///< of what is live
  std::uint32_t position = 0;
  std::size_t begun = 0;  ///< stays by their first position: so many have begun
  std::size_t ended = 0;  ///< stays by their last position: so many have ended
};

class CoverBuilder {
 public:
  explicit CoverBuilder(const ConflictIndex& index)
      : index_(index),
        by_first_(index.stays().begin(), index.stays().end()),
        candidates_(index),
        names_(index.count()) {
    std::stable_sort(by_first_.begin(), by_first_.end(),
                     [](const Stay& a, const Stay& b) { return a.first < b.first; });
    by_last_ = by_first_;
    std::stable_sort(by_last_.begin(), by_last_.end(), [](const Stay& a, const Stay& b) { return a.last < b.last; });
    by_size_.resize(index.count());
    std::iota(by_size_.begin(), by_size_.end(), 0u);
    std::stable_sort(by_size_.begin(), by_size_.end(), [&](auto a, auto b) { return index_.size(a) > index_.size(b); });
    std::mt19937_64 random(1);
    for (std::uint64_t& name : names_) name = random();
  }

  std::vector<SeatedClique> build(std::uint64_t most_work) {
    const std::vector<Moment> all = moments();
    const std::uint64_t heaviest = all.empty() ? 0 : all.front().weight;
    for (const Moment& moment : all) {
      if (work_ > most_work || moment.weight * 2 < heaviest) break;
      join_live(moment);
      const std::vector<std::uint32_t> live = clique_;
      const Candidates::Left left = candidates_.left();
      for (const Growth growth : {Growth::kLargest, Growth::kNearest, Growth::kLater, Growth::kEarlier}) {
        clique_ = live;
        candidates_.set_left(left);
        grow(moment, growth);
        keep(moment.position);
        if (clique_.size() == live.size()) break;  // nothing could join
      }
    }
    return std::move(cover_);
  }

 private:
  enum class Growth { kLargest, kNearest, kLater, kEarlier };

  /// Heaviest first, one for each set of live buffers.
  std::vector<Moment> moments() const {
    std::vector<Moment> result;
    std::unordered_set<std::uint64_t> known;
    Moment now;
    std::uint64_t live = 0;
    while (now.begun < by_first_.size()) {
      now.position = by_first_[now.begun].first;
      for (; by_last_[now.ended].last < now.position; ++now.ended) {
        now.weight -= index_.size(by_last_[now.ended].buffer);
        live -= names_[by_last_[now.ended].buffer];
      }
      for (; now.begun < by_first_.size() && by_first_[now.begun].first == now.position; ++now.begun) {
        now.weight += index_.size(by_first_[now.begun].buffer);
        live += names_[by_first_[now.begun].buffer];
      }
      if (known.insert(live).second) result.push_back(now);
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Moment& a, const Moment& b) { return a.weight > b.weight; });
    return result;
  }

  /// Starts a clique with what is live at the moment, the largest first.
  void join_live(const Moment& moment) {
    std::vector<std::uint32_t> live;
    for (std::size_t s = 0; s < moment.begun; ++s) {
      if (by_first_[s].last >= moment.position) live.push_back(by_first_[s].buffer);
    }
    std::stable_sort(live.begin(), live.end(), [&](auto a, auto b) { return index_.size(a) > index_.size(b); });
    clique_.clear();
    candidates_.reset();
    for (const std::uint32_t b : live) join(b);
    work_ += moment.begun;
  }

  void grow(const Moment& moment, Growth growth) {
    if (growth == Growth::kLargest) {
      for (const std::uint32_t b : by_size_) join(b);
      work_ += by_size_.size();
    }
    std::size_t later = moment.begun;
    std::size_t earlier = moment.ended;
    while (candidates_.is_any_left() && (later < by_first_.size() || earlier > 0)) {
      const bool can_choose = later < by_first_.size() && earlier > 0;
      const bool forward = can_choose ? growth == Growth::kLater || (growth == Growth::kNearest &&
                                                                     by_first_[later].first - moment.position <=
                                                                         moment.position - by_last_[earlier - 1].last)
                                      : later < by_first_.size();
      join(forward ? by_first_[later++].buffer : by_last_[--earlier].buffer);
      ++work_;
    }
  }

  void join(std::uint32_t buffer) {
    if (!candidates_.has(buffer) || index_.size(buffer) == 0) return;
    clique_.push_back(buffer);
    candidates_.keep_neighbours(buffer);
    work_ += candidates_.words();
  }

  void keep(std::uint32_t position) {
    std::uint64_t name = 0;
    for (const std::uint32_t b : clique_) name += names_[b];
    if (clique_.empty() || !known_.insert(name).second) return;
    SeatedClique seated{{clique_, 0}, position};
    std::sort(seated.clique.members.begin(), seated.clique.members.end());
    for (const std::uint32_t b : clique_) seated.clique.weight += index_.size(b);
    cover_.push_back(std::move(seated));
  }

  const ConflictIndex& index_;
  std::vector<Stay> by_first_;
  std::vector<Stay> by_last_;
  std::vector<std::uint32_t> by_size_;
  Candidates candidates_;
  std::vector<std::uint64_t> names_;  ///< random numbers; a set is named by the sum of its members'
  std::vector<std::uint32_t> live_;   ///< at the moment at hand, largest first
  std::vector<std::uint32_t> clique_;
  std::unordered_set<std::uint64_t> known_;
  std::vector<SeatedClique> cover_;
  std::uint64_t work_ = 0;
};

}  // namespace

std::vector<SeatedClique> cover_by_cliques(const ConflictIndex& index, std::uint64_t most_work) {
  return CoverBuilder(index).build(most_work);
}

}  // namespace zeroplan::planner
