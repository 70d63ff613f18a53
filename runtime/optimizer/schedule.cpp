#include "runtime/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/optimizer/schedule_arguments.h"

namespace zeroplan::runtime {
namespace {

/// constant, linear and cosine with linear warm-up: transformers' get_..._schedule_with_warmup, number = its
/// current_step.
class WarmedSchedule final : public Schedule {
 public:
  enum class Shape { kConstant, kLinear, kCosine };
  WarmedSchedule(const ScheduleSettings& s, Shape shape)
      : shape_(shape),
        peak_(s.peak_rate),
        warmup_(static_cast<double>(s.warmup_steps)),
        total_(static_cast<double>(s.total_steps)) {}

  double rate(std::uint64_t number) const override {
    const auto n = static_cast<double>(number);
    if (n < warmup_) return peak_ * n / std::max(1.0, warmup_);
    const double span = std::max(1.0, total_ - warmup_);
    switch (shape_) {
      case Shape::kConstant:
        return peak_;
      case Shape::kLinear:
        return peak_ * std::max(0.0, (total_ - n) / span);
      case Shape::kCosine:
        return peak_ * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * (n - warmup_) / span)));
    }
    return peak_;
  }

 private:
  Shape shape_;
  double peak_, warmup_, total_;
};

/// DeepSpeed's schedulers count from t = -1: update `number` sees t = number - 1.
double iteration_of(std::uint64_t number) {
  return static_cast<double>(number) - 1;
}

/// The common warm-up of DeepSpeed's Warmup schedules.
class Warmup {
 public:
  explicit Warmup(ScheduleArguments& arguments)
      : steps_(std::max<double>(2, static_cast<double>(arguments.positive("warmup_num_steps", 1000)))),
        is_linear_(arguments.one_of("warmup_type", {"log", "linear"}) == "linear") {}
  double steps() const { return steps_; }
  bool covers(double t) const { return t < steps_; }
  double gamma(double t) const { return is_linear_ ? t / steps_ : std::log(t + 1) / std::log(steps_); }

 private:
  double steps_;
  bool is_linear_;
};

/// WarmupLR, and with a total number of steps WarmupDecayLR.
class WarmupSchedule final : public Schedule {
 public:
  WarmupSchedule(ScheduleArguments& a, double default_max, bool decays)
      : low_(a.number("warmup_min_lr", 0.0)), high_(a.number("warmup_max_lr", default_max)), warmup_(a) {
    if (decays) total_ = static_cast<double>(a.positive("total_num_steps", std::nullopt));
    a.starts_at_the_beginning();
  }
  double rate(std::uint64_t number) const override {
    const double t = iteration_of(number);
    if (t < 0) return low_;
    return low_ + (high_ - low_) * gamma(t);
  }

 private:
  double gamma(double t) const {
    if (warmup_.covers(t)) return warmup_.gamma(t);
    if (!total_) return 1;
    return std::max(0.0, (*total_ - t) / std::max(1.0, *total_ - warmup_.steps()));
  }
  double low_, high_;
  Warmup warmup_;
  std::optional<double> total_;
};

class WarmupCosineSchedule final : public Schedule {
 public:
  WarmupCosineSchedule(ScheduleArguments& a, double peak)
      : peak_(peak),
        total_(static_cast<double>(a.positive("total_num_steps", std::nullopt))),
        warmup_floor_(a.number("warmup_min_ratio", 0.0)),
        cosine_floor_(a.number("cos_min_ratio", 1e-4)),
        warmup_(a) {
    a.starts_at_the_beginning();
  }
  double rate(std::uint64_t number) const override {
    const double t = iteration_of(number);
    return t < 0 ? 0 : peak_ * ratio(t);
  }

 private:
  double ratio(double t) const {
    if (warmup_.covers(t)) return warmup_floor_ + (1 - warmup_floor_) * warmup_.gamma(t);
    const double progress = std::min(1.0, (t - warmup_.steps() + 1) / std::max(1.0, total_ - warmup_.steps()));
    return std::max(0.0, cosine_floor_ + (1 - cosine_floor_) * (1 + std::cos(std::numbers::pi * progress)) / 2);
  }
  double peak_, total_, warmup_floor_, cosine_floor_;
  Warmup warmup_;
};

class RangeTestSchedule final : public Schedule {
 public:
  explicit RangeTestSchedule(ScheduleArguments& a)
      : low_(a.number("lr_range_test_min_lr", 1e-3)),
        size_(static_cast<double>(a.positive("lr_range_test_step_size", 2000))),
        growth_(a.number("lr_range_test_step_rate", 1.0)),
        is_staircase_(a.boolean("lr_range_test_staircase", false)) {
    a.starts_at_the_beginning();
  }
  double rate(std::uint64_t number) const override {
    const double interval = (iteration_of(number) + 1) / size_;
    return low_ * (1 + growth_ * (is_staircase_ ? std::floor(interval) : interval));
  }

 private:
  double low_, size_, growth_;
  bool is_staircase_;
};

class OneCycleSchedule final : public Schedule {
 public:
  explicit OneCycleSchedule(ScheduleArguments& a)
      : low_(a.number("cycle_min_lr", std::nullopt)),
        high_(a.number("cycle_max_lr", std::nullopt)),
        decay_rate_(a.number("decay_lr_rate", 0.0)),
        first_(a.number_within("cycle_first_step_size", 2000, 1, kMostSteps)),
        second_(a.number_within("cycle_second_step_size", first_, 0, kMostSteps)),
        first_stairs_(static_cast<double>(a.count("cycle_first_stair_count", 0))),
        second_stairs_(
            static_cast<double>(a.count("cycle_second_stair_count", static_cast<std::uint64_t>(first_stairs_)))),
        decay_step_(a.number_within("decay_step_size", 0, 0, kMostSteps)),
        moves_momentum_(a.boolean("cycle_momentum", true)),
        low_momentum_(a.number_within("cycle_min_mom", 0.8, 0, kMostMomentum)),
        high_momentum_(a.number_within("cycle_max_mom", 0.9, 0, kMostMomentum)),
        momentum_decay_(a.number("decay_mom_rate", 0.0)) {
    a.starts_at_the_beginning();
  }

  double rate(std::uint64_t number) const override {
    const double t = iteration_of(number);
    if (t < 0) return low_;
    if (t < total()) return low_ + (high_ - low_) * scale(t);
    return low_ / (1 + decay_rate_ * intervals_after(t));
  }
  std::optional<Momenta> momenta(std::uint64_t number) const override {
    if (!moves_momentum_) return std::nullopt;
    const double t = iteration_of(number);
    if (t < 0) return Momenta{low_momentum_, kBeta2};
    if (t < total()) return Momenta{high_momentum_ - (high_momentum_ - low_momentum_) * scale(t), kBeta2};
    return Momenta{high_momentum_ * (1 + momentum_decay_ * intervals_after(t)), kBeta2};
  }

 private:
  static constexpr double kBeta2 = 0.99;  ///< DeepSpeed sets it, whatever the optimizer says
  static constexpr double kMostSteps = 0x1p53;
  static constexpr double kMostMomentum = 1 - 0x1p-53;
  double total() const { return first_ + second_; }

  double scale(double t) const {
    const double b = t + 1;
    const double ratio = first_ / total();
    if (first_stairs_ > 0 || second_stairs_ > 0) {
      const double q = std::fmod(b, total());
      if (q <= first_) return stair(q, first_, first_stairs_);
      return stair(total() - q, second_, second_stairs_);
    }
    const double x = 1 + b / total() - std::floor(1 + b / total());
    return x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
  }
  static double stair(double position, double size, double stairs) {
    return stairs > 0 ? std::floor(position * stairs / size) / stairs : position / size;
  }
  double intervals_after(double t) const { return decay_step_ > 0 ? (t - total() + 1) / decay_step_ : 0; }

  double low_, high_, decay_rate_, first_, second_, first_stairs_, second_stairs_, decay_step_;
  bool moves_momentum_;
  double low_momentum_, high_momentum_, momentum_decay_;
};

std::unique_ptr<Schedule> make_named(const ScheduleSettings& s, ScheduleArguments& a) {
  using Shape = WarmedSchedule::Shape;
  if (s.name == "constant") return std::make_unique<WarmedSchedule>(s, Shape::kConstant);
  if (s.name == "linear") return std::make_unique<WarmedSchedule>(s, Shape::kLinear);
  if (s.name == "cosine") return std::make_unique<WarmedSchedule>(s, Shape::kCosine);
  if (s.name == "WarmupLR") return std::make_unique<WarmupSchedule>(a, s.peak_rate, false);
  if (s.name == "WarmupDecayLR") return std::make_unique<WarmupSchedule>(a, 0.001, true);
  if (s.name == "WarmupCosineLR") return std::make_unique<WarmupCosineSchedule>(a, s.peak_rate);
  if (s.name == "OneCycle") return std::make_unique<OneCycleSchedule>(a);
  if (s.name == "LRRangeTest") return std::make_unique<RangeTestSchedule>(a);
  throw Error(ErrorCode::kUsage,
              fmt::format("--schedule {}: expected constant, linear, cosine, WarmupLR, WarmupDecayLR, "
                          "WarmupCosineLR, OneCycle or LRRangeTest",
                          s.name));
}

}  // namespace

std::unique_ptr<Schedule> make_schedule(const ScheduleSettings& settings) {
  ScheduleArguments arguments(settings);
  auto schedule = make_named(settings, arguments);
  arguments.finish();
  return schedule;
}

}  // namespace zeroplan::runtime
