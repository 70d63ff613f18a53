#include "runtime/optimizer/optimizer_settings.h"

#include <cmath>

#include <fmt/format.h>

namespace zeroplan::runtime {
namespace {

using planner::OptimizerKind;

void expect(bool is_fine, std::string_view flag, double value, std::string_view expected) {
  if (is_fine) return;
  throw Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", flag, value, expected))
      .at({.key = std::string(flag), .value = fmt::format("{}", value)});
}

void expect_fraction(std::string_view flag, double value) {
  expect(value >= 0 && value < 1, flag, value, "0 or more and less than 1");
}

}  // namespace

OptimizerSettings OptimizerSettings::of(OptimizerKind kind) {
  OptimizerSettings settings;
  if (kind == OptimizerKind::kAdagrad) settings.eps = 1e-10;
  return settings;
}

void OptimizerSettings::validate() const {
  expect_fraction("--beta1", beta1);
  expect_fraction("--beta2", beta2);
  expect_fraction("--momentum", momentum);
  // A gradient that was always zero is divided by it, in fp32.
  expect(static_cast<float>(eps) > 0 && std::isfinite(static_cast<float>(eps)), "--eps", eps,
         "a positive number that fp32 can hold");
  if (nesterov) expect(momentum > 0, "--momentum", momentum, "more than 0 with --nesterov");
  expect(std::isfinite(min_coeff) && min_coeff >= 0, "--min-coeff", min_coeff, "0 or more");
  expect(std::isfinite(max_coeff) && max_coeff >= min_coeff, "--max-coeff", max_coeff,
         fmt::format("at least --min-coeff, {}", min_coeff));
}

void OptimizerSettings::apply(kernels::StepScalars& scalars) const {
  scalars.beta1 = beta1;
  scalars.beta2 = beta2;
  scalars.epsilon = eps;
  scalars.momentum = momentum;
  scalars.nesterov = nesterov ? 1 : 0;
  scalars.min_coeff = min_coeff;
  scalars.max_coeff = max_coeff;
}

std::vector<std::string_view> optimizer_flags(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamW:
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW8bit:
      return {"--beta1", "--beta2", "--eps"};
    case OptimizerKind::kSgd:
      return {"--momentum", "--nesterov"};
    case OptimizerKind::kLion:
      return {"--beta1", "--beta2"};
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kAdafactor:
      return {"--eps"};
    case OptimizerKind::kLamb:
      return {"--beta1", "--beta2", "--eps", "--min-coeff", "--max-coeff"};
  }
  return {};
}

bool has_betas(OptimizerKind kind) {
  const auto flags = optimizer_flags(kind);
  return !flags.empty() && flags.front() == "--beta1";
}

}  // namespace zeroplan::runtime
