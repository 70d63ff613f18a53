// Extents of a tensor, outermost first. Depends on models/core only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "models/core/units.h"

namespace zeroplan {

/// Extents of a tensor, outermost first. A scalar has none.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::uint64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<std::uint64_t> extents) : extents_(std::move(extents)) {}

  const std::vector<std::uint64_t>& extents() const { return extents_; }
  std::size_t rank() const { return extents_.size(); }
  std::uint64_t operator[](std::size_t axis) const { return extents_.at(axis); }
  friend bool operator==(const Shape&, const Shape&) = default;

  /// Product of the extents; throws Error{kOverflow}.
  Elements elements() const {
    std::uint64_t product = 1;
    for (const std::uint64_t extent : extents_) product = detail::checked_mul(product, extent);
    return Elements(product);
  }

 private:
  std::vector<std::uint64_t> extents_;
};

/// "[768, 3072]"
std::string to_string(const Shape& shape);

}  // namespace zeroplan
