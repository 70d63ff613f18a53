#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "planner/deepspeed/accelerate_config.h"
#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

std::string variable(const Workspace& work, const std::string& name, const std::string& fallback) {
  const auto it = work.input.environment.find(name);
  return it == work.input.environment.end() ? fallback : it->second;
}

void fill(Workspace& work, std::string_view path, const Json& value) {
  if (work.filled.is_auto(path)) work.filled.set(path, value);
}

/// What the plugin fills when it is built: stage, devices, paths, saving; the trainer goes through it as well.
void fill_from_plugin(Workspace& work) {
  const std::string prefix = "ACCELERATE_DEEPSPEED_";
  const auto stage = coerce_integer(Json(variable(work, prefix + "ZERO_STAGE", "2")));
  fill(work, "zero_optimization.stage", stage.value_or(2));
  fill(work, "zero_optimization.offload_optimizer.device", variable(work, prefix + "OFFLOAD_OPTIMIZER_DEVICE", "none"));
  fill(work, "zero_optimization.offload_param.device", variable(work, prefix + "OFFLOAD_PARAM_DEVICE", "none"));
  fill(work, "zero_optimization.offload_param.nvme_path", variable(work, prefix + "OFFLOAD_PARAM_NVME_PATH", "none"));
  fill(work, "zero_optimization.offload_optimizer.nvme_path",
       variable(work, prefix + "OFFLOAD_OPTIMIZER_NVME_PATH", "none"));
  fill(work, "zero_optimization.stage3_gather_16bit_weights_on_model_save",
       variable(work, prefix + "ZERO3_SAVE_16BIT_MODEL", "false") == "true");
  if (!work.filled.has("gradient_accumulation_steps")) work.filled.set("gradient_accumulation_steps", 1);
}

void require_zero_section(Workspace& work) {
  if (work.given.has("zero_optimization")) return;
  work.findings.error("zero_optimization",
                      "the file has no zero_optimization section: Accelerate (and the trainer through it) stops",
                      "write zero_optimization with a stage", Json{{"stage", 2}});
}

/// fp16 and bf16 from the mixed precision of the accelerator.
void fill_precision(Workspace& work) {
  const AccelerateConfig config = accelerate_config_of(work.input);
  std::string precision = variable(work, "ACCELERATE_MIXED_PRECISION", config.text_or("mixed_precision", ""));
  if (precision.empty()) precision = work.arguments.bf16 ? "bf16" : work.arguments.fp16 ? "fp16" : "";
  if (precision.empty() && (work.filled.is_auto("fp16.enabled") || work.filled.is_auto("bf16.enabled")))
    precision = "no";
  if (precision.empty()) return;
  const bool is_bf16 = precision == "bf16" || precision == "fp8";
  if (precision == "fp16" && !work.filled.has("fp16")) {
    work.filled.set("fp16", {{"enabled", true}, {"auto_cast", true}});
  } else if (is_bf16 && !work.filled.has("bf16")) {
    work.filled.set("bf16", {{"enabled", true}});
  }
  const std::string other = precision == "fp16" ? "bf16" : "fp16";
  if (precision != "no" && work.flag(other + ".enabled", false)) {
    work.findings.error(
        other + ".enabled",
        fmt::format("mixed precision {} is asked for, but the file turns {} on: Accelerate stops", precision, other),
        fmt::format("turn {} off in the file, or ask for {}", other, other), false);
  }
  fill(work, "fp16.enabled", precision == "fp16");
  fill(work, "bf16.enabled", is_bf16);
}

void fill_batch(Workspace& work) {
  const auto count_of = [&work](const char* path) -> std::optional<std::int64_t> {
    const Json* value = work.filled.find(path);
    return value == nullptr || !value->is_number() ? std::nullopt : coerce_integer(*value);
  };
  std::optional<std::uint64_t> micro = work.input.decisions.micro_batch;
  if (!micro && work.arguments.batch_given) micro = work.arguments.per_device_train_batch_size;
  if (micro) fill(work, "train_micro_batch_size_per_gpu", *micro);
  std::uint64_t steps = work.input.decisions.accumulation.value_or(work.arguments.gradient_accumulation_steps);
  const std::string from_environment = variable(work, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "");
  if (const auto n = coerce_integer(Json(from_environment)); n && *n > 0) steps = static_cast<std::uint64_t>(*n);
  fill(work, "gradient_accumulation_steps", steps);
  const auto written_micro = count_of("train_micro_batch_size_per_gpu");
  const auto written_steps = count_of("gradient_accumulation_steps");
  if (written_micro && written_steps && *written_micro > 0 && *written_steps > 0) {
    const std::uint64_t product =
        detail::checked_mul(static_cast<std::uint64_t>(*written_micro), static_cast<std::uint64_t>(*written_steps));
    fill(work, "train_batch_size", detail::checked_mul(product, work.input.training.gpus));
  }
}

}  // namespace

void fill_for_accelerate(Workspace& work) {
  require_zero_section(work);
  fill_from_plugin(work);
  if (work.is_trainer()) return;
  const AccelerateConfig config = accelerate_config_of(work.input);
  const auto clipping =
      coerce_number(Json(variable(work, "ACCELERATE_GRADIENT_CLIPPING", config.text_or("gradient_clipping", ""))));
  fill(work, "gradient_clipping", clipping.value_or(1.0));
  fill_precision(work);
  fill_batch(work);
  // DummyOptim and DummyScheduler carry these; their own defaults count where no arguments are given.
  const bool lr_given =
      work.input.trainer_arguments.is_object() && work.input.trainer_arguments.contains("learning_rate");
  const double lr = lr_given ? work.arguments.learning_rate : 1e-3;
  fill(work, "optimizer.params.lr", lr);
  fill(work, "optimizer.params.weight_decay", work.arguments.weight_decay);
  fill(work, "scheduler.params.warmup_min_lr", 0);
  fill(work, "scheduler.params.warmup_max_lr", lr);
  const auto steps = work.arguments.training_steps(work.input.dataset_rows, work.input.training.gpus);
  work.report.training_steps = steps;
  if (steps) fill(work, "scheduler.params.total_num_steps", *steps);
  if (const auto warmup = work.arguments.warmup(steps)) fill(work, "scheduler.params.warmup_num_steps", *warmup);
}

}  // namespace zeroplan::planner::deepspeed
