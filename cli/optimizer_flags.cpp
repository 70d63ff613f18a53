#include "cli/optimizer_flags.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/core/text.h"

namespace zeroplan::cli {
namespace {

/// Where the number of a flag is kept.
double& number_of(runtime::OptimizerSettings& settings, const std::string& flag) {
  if (flag == "--beta1") return settings.beta1;
  if (flag == "--beta2") return settings.beta2;
  if (flag == "--eps") return settings.eps;
  if (flag == "--momentum") return settings.momentum;
  if (flag == "--min-coeff") return settings.min_coeff;
  ZP_CHECK(flag == "--max-coeff");
  return settings.max_coeff;
}

}  // namespace

void OptimizerFlags::add_to(CLI::App& app) {
  const auto add = [&](const std::string& flag, const std::string& help) {
    app.add_option_function<std::string>(
        flag, [this, flag](const std::string& text) { values_[flag] = text; }, help);
  };
  add("--beta1", "adamw, adam, lion, lamb: first moment's coefficient (0.9)");
  add("--beta2", "adamw, adam, lion, lamb: second moment's, lion: the moment's (0.999)");
  add("--eps", "adamw, adam, lamb (1e-8), adagrad (1e-10): added to the root of the second moment");
  add("--momentum", "sgd (0.9)");
  app.add_flag_callback(
      "--nesterov", [this] { values_["--nesterov"] = "true"; }, "sgd: Nesterov's momentum");
  add("--min-coeff", "lamb: least trust ratio (0.01)");
  add("--max-coeff", "lamb: largest trust ratio (10)");
}

runtime::OptimizerSettings OptimizerFlags::settings(planner::OptimizerKind kind) const {
  auto settings = runtime::OptimizerSettings::of(kind);
  const auto known = runtime::optimizer_flags(kind);
  for (const auto& [flag, text] : values_) {
    if (std::find(known.begin(), known.end(), flag) == known.end()) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("{}: the plan's optimizer {} has no such constant", flag, planner::name_of(kind)))
          .at({.key = flag, .value = text})
          .hint(fmt::format("it has {}", fmt::join(known, ", ")));
    }
    if (flag == "--nesterov") {
      settings.nesterov = true;
    } else {
      number_of(settings, flag) = parse_number(text, flag);
    }
  }
  settings.validate();
  return settings;
}

}  // namespace zeroplan::cli
