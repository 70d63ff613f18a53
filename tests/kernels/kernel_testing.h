// What the kernel tests share. Each cpu kernel is compared with its reference twin run in fp64 on the same inputs,
// within a bound that the test derives; and it must give the same bits for 1, 2 and 3 workers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/workers.h"

namespace zeroplan::kernels::testing {

/// Unit roundoff of fp32: one operation is off by at most this, relative.
constexpr double kRoundoff = 0x1p-24;

inline std::vector<float> random_floats(std::size_t n, std::uint32_t seed, double spread = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(normal(generator));
  return values;
}

inline std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// Workspace as the plan gives it: 64-byte aligned.
class Workspace {
 public:
  explicit Workspace(std::uint64_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes + 64, std::align_val_t(64)))), bytes_(bytes) {
    std::memset(data_, 0xff, bytes + 64);
  }
  ~Workspace() { ::operator delete(data_, std::align_val_t(64)); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* get() { return data_; }
  /// Whether every float of it was written, and nothing behind it.
  bool exactly_written() const {
    for (std::uint64_t i = 0; i < bytes_; i += 4) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, data_ + i, 4);
      if (bits == 0xffffffffu) return false;
    }
    for (std::uint64_t i = bytes_; i < bytes_ + 64; ++i) {
      if (data_[i] != std::byte{0xff}) return false;
    }
    return true;
  }

 private:
  std::byte* data_;
  std::uint64_t bytes_;
};

/// |actual - expected| <= bound, element by element.
inline void expect_within(const std::vector<float>& actual, const std::vector<double>& expected,
                          const std::function<double(std::size_t)>& bound) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), bound(i))
        << "element " << i << ": " << actual[i] << " for " << expected[i];
  }
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Calls compute(workers) with 1, 2 and 3 workers; all results must have the same bits. Returns the result.
inline std::vector<float> same_for_all_workers(const std::function<std::vector<float>(Workers&)>& compute) {
  std::vector<float> first;
  for (int count = 1; count <= 3; ++count) {
    Workers workers(count);
    std::vector<float> result = compute(workers);
    if (count == 1) {
      first = std::move(result);
    } else {
      EXPECT_TRUE(same_bits(first, result)) << count << " workers";
    }
  }
  return first;
}

/// Compares d loss / d x with central differences of `loss`, which reads `x`. Everything is fp64 except statistics that
/// kernels save as fp32: so the gradient may be off by some roundoffs of fp32 times `size`, the magnitude of the terms
/// it sums; differences add less than that.
inline void expect_gradient(std::vector<double>& x, const std::vector<double>& gradient,
                            const std::function<double()>& loss, double size) {
  constexpr double kStep = 1e-4;
  ASSERT_EQ(x.size(), gradient.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double above = loss();
    x[i] = kept - kStep;
    const double below = loss();
    x[i] = kept;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * kStep), 64 * kRoundoff * size) << "element " << i;
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace zeroplan::kernels::testing
