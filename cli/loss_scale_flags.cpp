#include "cli/loss_scale_flags.h"

#include <fmt/format.h>

#include "models/core/error.h"
#include "models/core/text.h"

namespace zeroplan::cli {

void LossScaleFlags::add(CLI::App& app) {
  app.add_option("--loss-scale", scale_, "fp16: a fixed scale of the loss; 0 = dynamic (0)");
  app.add_option("--initial-scale-power", power_, "fp16: the dynamic scale begins at 2 to the power of this (16)");
  app.add_option("--loss-scale-window", window_, "fp16: good updates after which the scale doubles (1000)");
  app.add_option("--hysteresis", hysteresis_, "fp16: overflows until the scale halves (2)");
  app.add_option("--min-loss-scale", least_, "fp16: the least scale; an overflow there ends the run (1)");
  app.add_flag("--consecutive-hysteresis", consecutive_, "fp16: each good update makes the hysteresis whole again");
}

runtime::LossScaleSettings LossScaleFlags::settings(planner::Precision precision) const {
  runtime::LossScaleSettings settings;
  const bool is_any_given = consecutive_ || !(scale_ + power_ + window_ + hysteresis_ + least_).empty();
  if (is_any_given && precision != planner::Precision::kFp16Mixed) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the loss is scaled with fp16-mixed only, and the plan's precision is {}",
                            planner::name_of(precision)))
        .at({.key = "--loss-scale"})
        .hint("leave the flags of the loss scale out, or make the plan with --precision fp16-mixed");
  }
  if (!scale_.empty()) settings.fixed_scale = parse_number(scale_, "--loss-scale");
  if (!power_.empty()) settings.initial_power = parse_count(power_, "--initial-scale-power");
  if (!window_.empty()) settings.window = parse_count(window_, "--loss-scale-window");
  if (!hysteresis_.empty()) settings.hysteresis = parse_count(hysteresis_, "--hysteresis");
  if (!least_.empty()) settings.least = parse_number(least_, "--min-loss-scale");
  settings.refills_with_each_good = consecutive_;
  settings.validate();
  return settings;
}

}  // namespace zeroplan::cli
