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

/// fp16 and bf16 from the mixed precision of the accelerator, which the trainer sets as well. A missing section is
/// written.
void fill_precision(Workspace& work) {
  const AccelerateConfig config = accelerate_config_of(work.input);
  std::string precision = work.arguments.mixed_precision;
  if (precision == "no")
    precision = variable(work, "ACCELERATE_MIXED_PRECISION", config.text_or("mixed_precision", "no"));
  const bool is_fp16 = precision == "fp16";
  const bool is_bf16 = precision == "bf16" || precision == "fp8";
  const std::string other = is_fp16 ? "bf16" : "fp16";
  if (precision != "no" && work.flag(other + ".enabled", false) && !work.findings.has_error(other + ".enabled")) {
    work.findings.error(
        other + ".enabled",
        fmt::format("mixed precision {} is asked for, but the file turns {} on: Accelerate stops", precision, other),
        fmt::format("turn {} off in the file, or ask for {}", other, other), false);
  }
  if (!work.filled.has("fp16")) {
    work.filled.set("fp16", is_fp16 ? Json{{"enabled", true}, {"auto_cast", true}} : Json{{"enabled", false}});
  }
  if (!work.filled.has("bf16")) work.filled.set("bf16", {{"enabled", is_bf16}});
  fill(work, "fp16.enabled", is_fp16);
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
  if (work.filled.is_auto("train_batch_size") && !work.filled.has("train_micro_batch_size_per_gpu")) {
    work.findings.error("train_batch_size",
                        "train_batch_size is auto, but the file has no train_micro_batch_size_per_gpu from which "
                        "Accelerate would compute it: it stops",
                        "add \"train_micro_batch_size_per_gpu\": \"auto\", or write a number");
  }
  const auto written_micro = count_of("train_micro_batch_size_per_gpu");
  const auto written_steps = count_of("gradient_accumulation_steps");
  if (written_micro && written_steps && *written_micro > 0 && *written_steps > 0) {
    const std::uint64_t product =
        detail::checked_mul(static_cast<std::uint64_t>(*written_micro), static_cast<std::uint64_t>(*written_steps));
    fill(work, "train_batch_size", detail::checked_mul(product, work.input.training.gpus));
  }
}

/// Steps of DummyScheduler: Accelerate divides its total by the ranks unless each batch is split among them. Where only
/// the length of the training is known, that is what the result has to be.
void fill_schedule(Workspace& work) {
  const TrainerArguments& a = work.arguments;
  const std::uint64_t ranks = std::max<std::uint64_t>(work.input.training.gpus, 1);
  std::optional<std::uint64_t> steps = a.training_steps(work.input.dataset_rows, ranks);
  if (a.scheduler_steps) steps = a.split_batches ? *a.scheduler_steps : divide_up(*a.scheduler_steps, ranks);
  work.report.training_steps = steps;
  if (steps) fill(work, "scheduler.params.total_num_steps", *steps);
  const auto warmup = a.scheduler_warmup ? a.scheduler_warmup : a.warmup(steps);
  if (warmup) fill(work, "scheduler.params.warmup_num_steps", *warmup);
}

}  // namespace

void fill_for_accelerate(Workspace& work) {
  require_zero_section(work);
  fill_from_plugin(work);
  fill_precision(work);
  // Both pass an optimizer object where the file has none, and allow any.
  if (!work.filled.has("optimizer")) work.filled.set("zero_allow_untested_optimizer", true);
  if (work.is_trainer()) return;
  const AccelerateConfig config = accelerate_config_of(work.input);
  const auto clipping =
      coerce_number(Json(variable(work, "ACCELERATE_GRADIENT_CLIPPING", config.text_or("gradient_clipping", ""))));
  fill(work, "gradient_clipping", clipping.value_or(1.0));
  fill_batch(work);
  // DummyOptim and DummyScheduler carry these; their own defaults count where no arguments are given.
  const bool lr_given =
      work.input.trainer_arguments.is_object() && work.input.trainer_arguments.contains("learning_rate");
  const double lr = lr_given ? work.arguments.learning_rate : 1e-3;
  fill(work, "optimizer.params.lr", lr);
  fill(work, "optimizer.params.weight_decay", work.arguments.weight_decay);
  fill(work, "scheduler.params.warmup_min_lr", 0);
  fill(work, "scheduler.params.warmup_max_lr", lr);
  fill_schedule(work);
}

}  // namespace zeroplan::planner::deepspeed
