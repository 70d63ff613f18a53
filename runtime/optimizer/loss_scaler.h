// The scale of the loss under fp16, so that small gradients do not become zero. Purpose: DeepSpeed's rule, which halves
// the scale when a gradient overflows and doubles it after a row of good updates. Main types: LossScaleSettings,
// LossScalerState, LossScaler. Depends on models/core/error only.
#pragma once

#include <cstdint>

namespace zeroplan::runtime {

/// DeepSpeed's section fp16 with its defaults.
struct LossScaleSettings {
  double fixed_scale = 0;               ///< a scale that never changes; 0: dynamic
  std::uint64_t initial_power = 16;     ///< the first scale is 2^initial_power
  std::uint64_t window = 1000;          ///< good updates after which the scale doubles
  std::uint64_t hysteresis = 2;         ///< overflows until the scale halves
  double least = 1;                     ///< the scale never gets smaller
  bool refills_with_each_good = false;  ///< consecutive_hysteresis: each good update makes `hysteresis` whole again

  /// \throws Error{kUsage} for values that no run can use, under the names of train's flags
  void validate() const;
};

/// What a checkpoint keeps.
struct LossScalerState {
  double scale = 1;
  std::int64_t hysteresis = 1;      ///< overflows left until the scale halves
  std::int64_t iteration = 0;       ///< updates seen
  std::int64_t last_overflow = -1;  ///< iteration of the last one
  friend bool operator==(const LossScalerState&, const LossScalerState&) = default;
};

/// One per rank; all see the same overflows and so have the same scale.
class LossScaler {
 public:
  explicit LossScaler(const LossScaleSettings& settings);

  double scale() const { return state_.scale; }
  const LossScalerState& state() const { return state_; }
  /// Goes on from a checkpoint. A fixed scale was asked for by its value and stays.
  void restore(const LossScalerState& state) {
    if (settings_.fixed_scale == 0) state_ = state;
  }
  /// Once an update. \returns false if it overflowed and the scale is at its least: the run cannot go on. The state
  /// then stays as it was.
  [[nodiscard]] bool update(bool overflowed);

 private:
  bool shrink();

  LossScaleSettings settings_;
  LossScalerState state_;
};

}  // namespace zeroplan::runtime
