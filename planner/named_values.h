// Enumerations with the names that flags, plans and documents use. Depends on models/core only.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "models/core/error.h"

namespace zeroplan::planner {

/// The names of an enumeration's values; specialised as `constexpr auto kNamesOf<E> = std::array<...>{...}`.
template <class E>
inline constexpr std::array<std::pair<E, std::string_view>, 0> kNamesOf{};

/// The name of a value.
template <class E>
std::string_view name_of(E value) {
  for (const auto& [candidate, name] : kNamesOf<E>) {
    if (candidate == value) return name;
  }
  return "?";
}

/// "a, b or c": what may stand there.
template <class E>
std::string expected_names() {
  std::string text;
  std::size_t left = kNamesOf<E>.size();
  for (const auto& [value, name] : kNamesOf<E>) {
    text += name;
    --left;
    if (left > 0) text += left == 1 ? " or " : ", ";
  }
  return text;
}

/// The value of a name. `what` is the flag or key. \throws Error{kUsage} with the names that are known.
template <class E>
E parse_named(std::string_view text, std::string_view what) {
  for (const auto& [value, name] : kNamesOf<E>) {
    if (name == text) return value;
  }
  throw Error(ErrorCode::kUsage, std::string(what) + " " + std::string(text) + ": expected " + expected_names<E>())
      .at({.key = std::string(what), .value = std::string(text)});
}

}  // namespace zeroplan::planner
