#include "planner/rate_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/core/error.h"

namespace zeroplan::planner {
namespace {

/// A grid of more points than this is not laid out; look-ups then take the nearest point.
constexpr std::size_t kMostGridPoints = 1u << 16;

std::array<double, 3> logarithms(const RateTable::Extents& extents) {
  std::array<double, 3> place{};
  for (std::size_t i = 0; i < 3; ++i) place[i] = std::log2(static_cast<double>(std::max<std::uint64_t>(extents[i], 1)));
  return place;
}

}  // namespace

void RateTable::add(const Extents& extents, double value) {
  ZP_CHECK(value > 0 && std::isfinite(value));
  points_.push_back({logarithms(extents), std::log2(value)});
  for (std::size_t i = 0; i < 3; ++i) smallest_[i] = std::min(smallest_[i], std::max<std::uint64_t>(extents[i], 1));
}

void RateTable::finish() {
  std::size_t cells = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const Point& point : points_) axes_[i].push_back(point.place[i]);
    std::sort(axes_[i].begin(), axes_[i].end());
    axes_[i].erase(std::unique(axes_[i].begin(), axes_[i].end()), axes_[i].end());
    cells *= std::min(axes_[i].size(), kMostGridPoints + 1);
    if (cells > kMostGridPoints) return;
  }
  grid_.assign(cells, std::numeric_limits<double>::quiet_NaN());
  const auto line = [&](std::size_t axis, double place) {
    return static_cast<std::size_t>(std::lower_bound(axes_[axis].begin(), axes_[axis].end(), place) -
                                    axes_[axis].begin());
  };
  for (const Point& p : points_) grid_[index(line(0, p.place[0]), line(1, p.place[1]), line(2, p.place[2]))] = p.value;
}

RateTable::Cell RateTable::cell(std::size_t axis, double place) const {
  const std::vector<double>& lines = axes_[axis];
  if (place <= lines.front()) return {0, 0, 0};
  if (place >= lines.back()) return {lines.size() - 1, lines.size() - 1, 0};
  const auto high = static_cast<std::size_t>(std::upper_bound(lines.begin(), lines.end(), place) - lines.begin());
  return {high - 1, high, (place - lines[high - 1]) / (lines[high] - lines[high - 1])};
}

double RateTable::nearest(const std::array<double, 3>& place) const {
  double best = std::numeric_limits<double>::infinity();
  double value = 0;
  for (const Point& p : points_) {
    double distance = 0;
    for (std::size_t i = 0; i < 3; ++i) distance += (p.place[i] - place[i]) * (p.place[i] - place[i]);
    if (distance < best) {
      best = distance;
      value = p.value;
    }
  }
  return value;
}

double RateTable::at(const Extents& extents) const {
  if (points_.empty()) return 0;
  const auto place = logarithms(extents);
  if (grid_.empty()) return std::exp2(nearest(place));
  const Cell a = cell(0, place[0]), b = cell(1, place[1]), c = cell(2, place[2]);
  double sum = 0, weights = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    const auto weigh = [&](const Cell& on, bool high) { return high ? on.fraction : 1 - on.fraction; };
    const bool ha = (corner & 1u) != 0, hb = (corner & 2u) != 0, hc = (corner & 4u) != 0;
    const double weight = weigh(a, ha) * weigh(b, hb) * weigh(c, hc);
    if (weight <= 0) continue;
    const double value = grid_[index(ha ? a.high : a.low, hb ? b.high : b.low, hc ? c.high : c.low)];
    if (std::isnan(value)) continue;
    sum += weight * value;
    weights += weight;
  }
  return std::exp2(weights > 0 ? sum / weights : nearest(place));
}

}  // namespace zeroplan::planner
