// Learning-rate schedules. Purpose: the rate of each update, value for value as Hugging Face's and DeepSpeed's
// schedulers give it. Main types: ScheduleSettings, Schedule. Depends on models/core.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace zeroplan::runtime {

struct ScheduleSettings {
  std::string name = "constant";
  double peak_rate = 3e-4;                       ///< --lr
  std::uint64_t warmup_steps = 0;                ///< constant, linear, cosine
  std::uint64_t total_steps = 0;                 ///< linear, cosine
  std::map<std::string, std::string> arguments;  ///< DeepSpeed's parameters by their names
};

/// Adam's coefficients where a schedule moves them (OneCycle).
struct Momenta {
  double beta1 = 0.9;
  double beta2 = 0.999;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// The rate of update `number` (from 0; skipped updates do not count).
  virtual double rate(std::uint64_t number) const = 0;
  virtual std::optional<Momenta> momenta(std::uint64_t) const { return std::nullopt; }
};

/// \throws Error{kUsage} for an unknown schedule or argument, a missing one, or a value out of range
std::unique_ptr<Schedule> make_schedule(const ScheduleSettings& settings);

}  // namespace zeroplan::runtime
