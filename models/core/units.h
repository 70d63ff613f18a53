// Value types with units. Purpose: a count of elements can never be taken for a count of bytes, and no size wraps
// around. Main types: Bytes, Elements, Flops (64-bit counts, checked), Seconds, and rates. Depends on models/core/error
// only.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "models/core/error.h"

namespace zeroplan {

namespace detail {
[[noreturn]] void count_overflow();

inline std::uint64_t checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) count_overflow();
  return sum;
}
inline std::uint64_t checked_sub(std::uint64_t a, std::uint64_t b) {
  if (b > a) count_overflow();
  return a - b;
}
inline std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) count_overflow();
  return product;
}
}  // namespace detail

/// A checked 64-bit count of things of one kind. Arithmetic that leaves 0 ... 2^64-1 throws Error{kOverflow}.
template <class Kind>
class Count {
 public:
  constexpr Count() = default;
  constexpr explicit Count(std::uint64_t n) : n_(n) {}
  constexpr std::uint64_t count() const { return n_; }
  friend constexpr auto operator<=>(Count, Count) = default;

  friend Count operator+(Count a, Count b) { return Count(detail::checked_add(a.n_, b.n_)); }
  friend Count operator-(Count a, Count b) { return Count(detail::checked_sub(a.n_, b.n_)); }
  friend Count operator*(Count a, std::uint64_t times) { return Count(detail::checked_mul(a.n_, times)); }
  friend Count operator*(std::uint64_t times, Count a) { return a * times; }
  friend Count operator/(Count a, std::uint64_t parts) { return Count(a.n_ / parts); }
  friend std::uint64_t operator/(Count a, Count b) { return a.n_ / b.n_; }
  Count& operator+=(Count b) { return *this = *this + b; }
  Count& operator-=(Count b) { return *this = *this - b; }

 private:
  std::uint64_t n_ = 0;
};

using Bytes = Count<struct BytesKind>;
using Elements = Count<struct ElementsKind>;
using Flops = Count<struct FlopsKind>;

/// The smallest multiple of `alignment` (not 0) that is not below `n`.
template <class Kind>
Count<Kind> round_up(Count<Kind> n, std::uint64_t alignment) {
  return Count<Kind>(detail::checked_mul(detail::checked_add(n.count(), alignment - 1) / alignment, alignment));
}

/// a / b, rounded up; b is not 0.
inline std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// A duration. Finite and not negative by convention of the cost models; infinity means "never".
class Seconds {
 public:
  constexpr Seconds() = default;
  constexpr explicit Seconds(double value) : value_(value) {}
  constexpr double value() const { return value_; }
  friend constexpr auto operator<=>(Seconds, Seconds) = default;
  friend constexpr Seconds operator+(Seconds a, Seconds b) { return Seconds(a.value_ + b.value_); }
  friend constexpr Seconds operator-(Seconds a, Seconds b) { return Seconds(a.value_ - b.value_); }
  friend constexpr Seconds operator*(Seconds a, double times) { return Seconds(a.value_ * times); }
  friend constexpr double operator/(Seconds a, Seconds b) { return a.value_ / b.value_; }
  constexpr Seconds& operator+=(Seconds b) { return *this = *this + b; }

 private:
  double value_ = 0;
};

/// So many of one kind per second; 0 means "unknown".
template <class Counted>
class Rate {
 public:
  constexpr Rate() = default;
  constexpr explicit Rate(double per_second) : per_second_(per_second) {}
  constexpr double per_second() const { return per_second_; }
  constexpr bool known() const { return per_second_ > 0; }
  friend constexpr auto operator<=>(Rate, Rate) = default;
  friend constexpr Seconds operator/(Counted amount, Rate rate) {
    return Seconds(static_cast<double>(amount.count()) / rate.per_second_);
  }

 private:
  double per_second_ = 0;
};

using BytesPerSecond = Rate<Bytes>;
using FlopsPerSecond = Rate<Flops>;
using ElementsPerSecond = Rate<Elements>;

}  // namespace zeroplan
