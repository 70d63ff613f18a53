#include <fmt/format.h>

#include "planner/deepspeed/loss_scale.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

void check_both(Workspace& work) {
  const bool fp16 = work.flag("fp16.enabled", false);
  const bool bf16 =
      work.flag("bf16.enabled", false) || (!work.filled.has("bf16") && work.flag("bfloat16.enabled", false));
  if (fp16 && bf16) {
    work.findings.error("fp16.enabled", "fp16 and bf16 are both enabled, DeepSpeed takes at most one of them",
                        "set fp16.enabled or bf16.enabled to false (bf16 needs no loss scale)", false);
  }
  if (!work.flag("amp.enabled", false)) return;
  if (work.stage() > 0) {
    work.findings.error("amp.enabled", fmt::format("amp (Apex) does not work with ZeRO stage {}", work.stage()),
                        "use bf16 or fp16 instead of amp", false);
  } else if (fp16 || bf16) {
    work.findings.error("amp.enabled", "amp (Apex) does not work beside fp16 or bf16", "keep one of them", false);
  }
}

void check_loss_scale(Workspace& work) {
  const bool dynamic = work.flag("fp16.enabled", false) && work.number("fp16.loss_scale", 0) == 0;
  const Json* least = work.given.find("fp16.min_loss_scale");
  if (least != nullptr && work.findings.has_error("fp16.min_loss_scale") && least->is_number() &&
      least->get<double>() < 1) {
    work.findings.info(
        "fp16.min_loss_scale",
        fmt::format(
            "a minimum of {} would only buy further halvings: a scale that reaches 1 means that fp16's range does "
            "not suffice",
            shown_value(*least)),
        "use bf16 instead of fp16");
  }
  if (!dynamic) return;
  const std::int64_t window = work.integer("fp16.loss_scale_window", 1000);
  if (window <= 0) {
    work.findings.error("fp16.loss_scale_window", fmt::format("loss_scale_window is {}, expected at least 1", window),
                        "write 1000", 1000);
  }
  const std::int64_t minimum = work.integer("fp16.min_loss_scale", 1);
  if (minimum <= 0) {
    work.findings.error("fp16.min_loss_scale",
                        fmt::format("min_loss_scale is {}, expected an integer of at least 1", minimum), "write 1", 1);
    return;
  }
  const std::int64_t power = work.integer("fp16.initial_scale_power", 16);
  const std::int64_t hysteresis = work.integer("fp16.hysteresis", 2);
  work.report.overflow_steps_until_stop = overflow_steps_until_stop(power, hysteresis, minimum);
  if (!work.report.overflow_steps_until_stop) {
    work.findings.error("fp16.initial_scale_power", fmt::format("initial_scale_power is {}, expected 0 to 1023", power),
                        "write 16", 16);
    return;
  }
  const std::uint64_t steps = *work.report.overflow_steps_until_stop;
  const std::uint64_t free_steps = hysteresis > 1 ? static_cast<std::uint64_t>(hysteresis - 1) : 0;
  if (steps <= free_steps + 2) {
    work.findings.warning(
        "fp16.initial_scale_power",
        fmt::format(
            "the loss scale begins at 2^{} and may not fall below {}: it can only collapse, overflow {} ends the "
            "run",
            power, minimum, steps),
        "write initial_scale_power 16, or use bf16", 16);
  }
}

void check_model_type(Workspace& work) {
  if (!work.flag("fp16.enabled", false) || !work.input.model_config.is_object()) return;
  std::string family;
  std::string dtype;
  const Json& config = work.input.model_config;
  if (config.contains("model_type") && config["model_type"].is_string())
    family = config["model_type"].get<std::string>();
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key) && config[key].is_string()) dtype = config[key].get<std::string>();
  }
  const bool t5 = family == "t5" || family == "mt5" || family == "umt5";
  if (dtype != "bfloat16" && !t5) return;
  const auto steps = work.report.overflow_steps_until_stop;
  work.findings.warning(
      "fp16.enabled",
      fmt::format("the model was trained in bf16, whose range fp16 does not have: overflows are likely{}",
                  steps ? fmt::format("; if every step overflows the run stops at step {}", *steps) : ""),
      "use bf16 instead of fp16");
}

void check_master_weights(Workspace& work) {
  const bool cpu = work.offload_device("offload_optimizer") != "none";
  if (work.flag("fp16.fp16_master_weights_and_grads", false) && (work.stage() == 0 || !cpu)) {
    work.findings.error(
        "fp16.fp16_master_weights_and_grads",
        "fp16 master weights need a ZeRO stage of at least 1 with offload_optimizer and DeepSpeedCPUAdam",
        "write false", false);
  }
  const bool master = work.flag("bf16.bf16_master_weights_and_grads", false);
  const bool states = work.flag("bf16.bf16_optimizer_states", false);
  if (states && !master) {
    work.findings.error("bf16.bf16_optimizer_states", "bf16_optimizer_states requires bf16_master_weights_and_grads",
                        "set bf16_master_weights_and_grads to true as well", false);
  }
  if ((master || states) && work.stage() == 0) {
    work.findings.error(master ? "bf16.bf16_master_weights_and_grads" : "bf16.bf16_optimizer_states",
                        "bf16 master weights need ZeRO stage 1, 2 or 3", "set zero_optimization.stage", false);
  } else if (master && !states && !cpu) {
    work.findings.error(
        "bf16.bf16_master_weights_and_grads",
        "bf16 master weights on the GPU need bf16_optimizer_states, otherwise offload_optimizer with DeepSpeedCPUAdam",
        "set bf16_optimizer_states to true, or offload the optimizer", false);
  }
  const std::string param = work.word("data_types.param_dtype", "");
  const std::string mode = work.flag("bf16.enabled", false)   ? "bf16"
                           : work.flag("fp16.enabled", false) ? "fp16"
                                                              : "fp32";
  if (!param.empty() && param != "auto" && param != mode) {
    work.findings.error("data_types.param_dtype",
                        fmt::format("param_dtype is {}, but the precision is {}", param, mode),
                        fmt::format("write {}", mode), mode);
  }
}

}  // namespace

void check_precision(Workspace& work) {
  check_both(work);
  check_loss_scale(work);
  check_model_type(work);
  check_master_weights(work);
}

}  // namespace zeroplan::planner::deepspeed
