#include <cmath>

#include <fmt/format.h>

#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Replaces `auto`, and lists what differs from the trainer's arguments.
class TrainerMatch {
 public:
  explicit TrainerMatch(Workspace& work) : work_(work) {}

  void fill(std::string_view path, const Json& value) {
    if (work_.filled.is_auto(path)) work_.filled.set(path, value);
  }

  /// `name`: the argument as users know it; `how`: how the value comes about, in words, may be empty.
  void match(std::string_view path, const Json& value, std::string_view name, const std::string& how = "") {
    if (work_.filled.is_auto(path)) {
      work_.filled.set(path, value);
      return;
    }
    const Json* written = work_.given.find(path);
    if (written == nullptr || written->is_null() || python_equal(*written, value)) return;
    const std::string trainer = how.empty()
                                    ? fmt::format("the trainer's {} is {}", name, shown_value(value))
                                    : fmt::format("the trainer's arguments give {} = {}", how, shown_value(value));
    std::string message = fmt::format("{}: the file says {}, {}", path, shown_value(*written), trainer);
    const bool text_for_number = written->is_string() && !value.is_string();
    if (text_for_number) {
      message += fmt::format("; the file's value is the string {}, not {}", shown_value(*written),
                             value.is_boolean() ? "true or false" : "a number");
    }
    work_.findings.error(std::string(path), message, fmt::format("write \"auto\", or {}", shown_value(value)), value);
  }

 private:
  Workspace& work_;
};

}  // namespace

void match_trainer_arguments(Workspace& work) {
  const TrainerArguments& a = work.arguments;
  TrainerMatch trainer(work);
  const std::uint64_t ranks = work.input.training.gpus;
  const std::uint64_t micro = a.per_device_train_batch_size;
  const std::uint64_t steps = a.gradient_accumulation_steps;
  const Json total = detail::checked_mul(detail::checked_mul(micro, steps), ranks);
  const std::string product = fmt::format("{} x {} x {} ranks", micro, steps, ranks);
  if (a.auto_find_batch_size) {
    trainer.fill("train_micro_batch_size_per_gpu", micro);
    trainer.match("gradient_accumulation_steps", steps, "gradient_accumulation_steps");
    trainer.fill("train_batch_size", total);
  } else {
    trainer.match("train_micro_batch_size_per_gpu", micro, "per_device_train_batch_size");
    trainer.match("gradient_accumulation_steps", steps, "gradient_accumulation_steps");
    trainer.match("train_batch_size", total, "train batch size", product);
  }
  trainer.match("gradient_clipping", a.max_grad_norm, "max_grad_norm");
  trainer.match("optimizer.params.lr", a.learning_rate, "learning_rate");
  trainer.match("optimizer.params.betas", Json::array({a.adam_beta1, a.adam_beta2}), "adam_beta1 and adam_beta2");
  trainer.match("optimizer.params.eps", a.adam_epsilon, "adam_epsilon");
  trainer.match("optimizer.params.weight_decay", a.weight_decay, "weight_decay");
  trainer.fill("scheduler.params.warmup_min_lr", 0);
  trainer.match("scheduler.params.warmup_max_lr", a.learning_rate, "learning_rate");
  if (a.save_on_each_node) work.filled.set("checkpoint.use_node_local_storage", true, false);
  trainer.match("fp16.enabled", a.fp16, "fp16");
  trainer.match("bf16.enabled", a.bf16, "bf16");

  const auto training_steps = a.training_steps(work.input.dataset_rows, ranks);
  work.report.training_steps = training_steps;
  if (training_steps) {
    const std::string how =
        a.max_steps > 0 ? "max_steps"
                        : fmt::format("{} rows / ({} per rank x {} ranks x {} accumulated) x {} epochs",
                                      *work.input.dataset_rows, micro, ranks, steps, shown_number(a.num_train_epochs));
    trainer.match("scheduler.params.total_num_steps", *training_steps, "number of training steps", how);
  } else if (work.filled.is_auto("scheduler.params.total_num_steps")) {
    work.findings.info("scheduler.params.total_num_steps",
                       "total_num_steps is auto: the trainer fills it from the data set, whose size is not known here",
                       "give --dataset-rows, or max_steps among the arguments");
  }
  if (const auto warmup = a.warmup(training_steps)) {
    trainer.match("scheduler.params.warmup_num_steps", *warmup, "warmup_steps");
  }
}

}  // namespace zeroplan::planner::deepspeed
