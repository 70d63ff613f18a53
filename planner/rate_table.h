// Measured points in up to three extents, interpolated between. Main type: RateTable. Depends on nothing of the
// planner.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace zeroplan::planner {

/// A positive figure (seconds per unit of work) over three extents. Between points that form a grid it is interpolated
/// linearly in the logarithms of extents and figure; where the grid has holes the corners that exist count, and where
/// all are absent the nearest point. Beyond the grid the value of its edge holds.
class RateTable {
 public:
  using Extents = std::array<std::uint64_t, 3>;

  /// Extents of 0 count as 1; the last figure for the same extents wins. \param value positive, finite
  void add(const Extents& extents, double value);
  /// Call once after the last point.
  void finish();

  bool empty() const { return points_.empty(); }
  /// \returns 0 if the table is empty
  double at(const Extents& extents) const;
  /// The smallest extent of an axis.
  std::uint64_t smallest(std::size_t axis) const { return smallest_[axis]; }

 private:
  struct Point {
    std::array<double, 3> place;  ///< logarithms
    double value;                 ///< likewise
  };
  /// Between which two grid lines, and how far.
  struct Cell {
    std::size_t low = 0;
    std::size_t high = 0;
    double fraction = 0;
  };
  Cell cell(std::size_t axis, double place) const;
  std::size_t index(std::size_t a, std::size_t b, std::size_t c) const {
    return (a * axes_[1].size() + b) * axes_[2].size() + c;
  }
  double nearest(const std::array<double, 3>& place) const;

  std::vector<Point> points_;
  std::array<std::vector<double>, 3> axes_;  ///< ascending
  std::vector<double> grid_;                 ///< NaN where there is no point
  std::array<std::uint64_t, 3> smallest_{~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}};
};

}  // namespace zeroplan::planner
