// What an update kernel works on, for the tests of all of them. Main type: UpdateState.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/kernels/kernel_testing.h"

namespace zeroplan::kernels::testing {

/// Random values; the second moment is not negative.
struct UpdateState {
  explicit UpdateState(std::size_t n)
      : parameter(random_floats(n, 1)),
        gradient(random_floats(n, 2)),
        first(random_floats(n, 3)),
        second(random_floats(n, 4)) {
    for (float& value : second) value = std::abs(value);
  }
  /// All that an update may change, in one row.
  std::vector<float> all() const {
    std::vector<float> result = parameter;
    result.insert(result.end(), first.begin(), first.end());
    result.insert(result.end(), second.begin(), second.end());
    return result;
  }
  std::vector<float> parameter, gradient, first, second;
};

}  // namespace zeroplan::kernels::testing
