#include "runtime/optimizer/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

constexpr std::uint64_t kMostPower = 126;  ///< 2^127 times a loss of 2 is no number in fp32
constexpr std::uint64_t kMostCount = std::uint64_t{1} << 53;

Error wrong_scale(const std::string& flag, const std::string& value, const std::string& expected) {
  return Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", flag, value, expected))
      .at({.key = flag, .value = value});
}

void check_count(const std::string& flag, std::uint64_t value) {
  if (value < 1 || value > kMostCount) throw wrong_scale(flag, fmt::format("{}", value), "1 to 2^53");
}

void check_scale(const std::string& flag, double value, bool may_be_zero) {
  const bool is_scale = std::isfinite(value) && value <= static_cast<double>(std::numeric_limits<float>::max());
  if (is_scale && (value > 0 || (may_be_zero && value == 0))) return;
  throw wrong_scale(flag, fmt::format("{:g}", value),
                    may_be_zero ? "0 (dynamic) or a positive number" : "a positive number");
}

}  // namespace

void LossScaleSettings::validate() const {
  check_scale("--loss-scale", fixed_scale, true);
  check_scale("--min-loss-scale", least, false);
  check_count("--loss-scale-window", window);
  check_count("--hysteresis", hysteresis);
  if (initial_power > kMostPower) {
    throw wrong_scale("--initial-scale-power", fmt::format("{}", initial_power), fmt::format("0 to {}", kMostPower));
  }
}

LossScaler::LossScaler(const LossScaleSettings& settings) : settings_(settings) {
  settings_.validate();
  state_.scale =
      settings_.fixed_scale > 0 ? settings_.fixed_scale : std::ldexp(1.0, static_cast<int>(settings_.initial_power));
  state_.hysteresis = static_cast<std::int64_t>(settings_.hysteresis);
}

bool LossScaler::shrink() {
  if (settings_.hysteresis == 1 || state_.hysteresis == 1) {
    if (state_.scale == settings_.least) return false;
    state_.scale = std::max(state_.scale / 2, settings_.least);
  } else {
    --state_.hysteresis;
  }
  state_.last_overflow = state_.iteration;
  return true;
}

bool LossScaler::update(bool overflowed) {
  if (settings_.fixed_scale > 0) return true;
  const auto whole = static_cast<std::int64_t>(settings_.hysteresis);
  if (overflowed) {
    if (!shrink()) return false;
  } else {
    if (settings_.refills_with_each_good) state_.hysteresis = whole;
    const std::int64_t good = state_.iteration - state_.last_overflow - 1;
    if (good > 0 && good % static_cast<std::int64_t>(settings_.window) == 0) {
      state_.hysteresis = whole;
      state_.scale *= 2;
    }
  }
  ++state_.iteration;
  return true;
}

}  // namespace zeroplan::runtime
