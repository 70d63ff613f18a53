#include "models/core/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zeroplan {

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.extents(), ", "));
}

}  // namespace zeroplan
