#include "planner/deepspeed/trainer_arguments.h"

#include <cmath>

#include <fmt/format.h>

#include "models/core/units.h"
#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr double kMostSteps = 1e15;

/// Takes arguments out of the object; what does not fit its type becomes a problem and the default stays.
class ArgumentReader {
 public:
  ArgumentReader(const Json& object, std::vector<std::string>& problems) : object_(object), problems_(problems) {}

  const Json* find(std::string_view name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void number(std::string_view name, double& target) const {
    const Json* value = find(name);
    if (value == nullptr) return;
    const auto parsed = coerce_number(*value);
    if (!parsed || !std::isfinite(*parsed)) return problem(name, *value, "a finite number");
    target = *parsed;
  }
  bool count(std::string_view name, std::uint64_t& target) const {
    const Json* value = find(name);
    if (value == nullptr) return false;
    const auto parsed = coerce_integer(*value);
    if (!parsed || *parsed < 1 || *parsed > (std::int64_t{1} << 40)) {
      problem(name, *value, "a whole number of at least 1");
      return false;
    }
    target = static_cast<std::uint64_t>(*parsed);
    return true;
  }
  void integer(std::string_view name, std::int64_t& target) const {
    const Json* value = find(name);
    if (value == nullptr) return;
    const auto parsed = coerce_integer(*value);
    if (!parsed) return problem(name, *value, "a whole number");
    target = *parsed;
  }
  void flag(std::string_view name, bool& target) const {
    const Json* value = find(name);
    if (value == nullptr) return;
    const auto parsed = coerce_bool(*value);
    if (!parsed) return problem(name, *value, "true or false");
    target = *parsed;
  }
  bool text(std::string_view name, std::string& target) const {
    const Json* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_string()) {
      problem(name, *value, "a text");
      return false;
    }
    target = value->get<std::string>();
    return true;
  }

 private:
  void problem(std::string_view name, const Json& value, std::string_view expected) const {
    problems_.push_back(fmt::format("{} is {}, expected {}", name, shown_value(value), expected));
  }

  const Json& object_;
  std::vector<std::string>& problems_;
};

}  // namespace

TrainerArguments read_trainer_arguments(const Json& arguments) {
  if (!arguments.is_object()) {
    throw Error(ErrorCode::kInvalidInput,
                "the trainer arguments are no object, expected {\"learning_rate\": 5e-5, ...}");
  }
  TrainerArguments a;
  const ArgumentReader read(arguments, a.problems);
  read.count("per_gpu_train_batch_size", a.per_device_train_batch_size);
  a.batch_given = read.count("per_device_train_batch_size", a.per_device_train_batch_size);
  read.count("gradient_accumulation_steps", a.gradient_accumulation_steps);
  read.number("max_grad_norm", a.max_grad_norm);
  read.number("learning_rate", a.learning_rate);
  read.number("adam_beta1", a.adam_beta1);
  read.number("adam_beta2", a.adam_beta2);
  read.number("adam_epsilon", a.adam_epsilon);
  read.number("weight_decay", a.weight_decay);
  double ratio = 0;
  read.number("warmup_ratio", ratio);
  read.number("warmup_steps", a.warmup_steps);
  if (a.warmup_steps <= 0 && ratio > 0) a.warmup_steps = ratio;
  if (a.warmup_steps < 0) a.problems.push_back("warmup_steps is negative, expected at least 0");
  read.number("num_train_epochs", a.num_train_epochs);
  read.integer("max_steps", a.max_steps);
  bool fp16_eval = false;
  bool bf16_eval = false;
  read.flag("fp16", a.fp16);
  read.flag("bf16", a.bf16);
  if (a.fp16 && a.bf16) a.problems.push_back("fp16 and bf16 are both true, expected at most one of them");
  a.mixed_precision = a.fp16 ? "fp16" : a.bf16 ? "bf16" : "no";
  read.flag("fp16_full_eval", fp16_eval);
  read.flag("bf16_full_eval", bf16_eval);
  a.fp16 = a.fp16 || fp16_eval;
  a.bf16 = a.bf16 || bf16_eval;
  read.flag("auto_find_batch_size", a.auto_find_batch_size);
  read.flag("dataloader_drop_last", a.dataloader_drop_last);
  read.flag("save_on_each_node", a.save_on_each_node);
  std::uint64_t count = 0;
  if (read.count("total_num_steps", count)) a.scheduler_steps = count;
  if (read.count("warmup_num_steps", count)) a.scheduler_warmup = count;
  read.flag("split_batches", a.split_batches);
  bool adafactor = false;
  read.flag("adafactor", adafactor);
  read.text("optim", a.optim);
  if (adafactor) a.optim = "adafactor";
  a.scheduler_given = read.text("lr_scheduler_type", a.lr_scheduler_type);
  return a;
}

std::optional<std::uint64_t> TrainerArguments::training_steps(std::optional<std::uint64_t> dataset_rows,
                                                              std::uint64_t ranks) const {
  if (max_steps > 0) return static_cast<std::uint64_t>(max_steps);
  if (!dataset_rows) return std::nullopt;
  const std::uint64_t per_pass = detail::checked_mul(per_device_train_batch_size, ranks);
  const std::uint64_t batches = dataloader_drop_last ? *dataset_rows / per_pass : divide_up(*dataset_rows, per_pass);
  const std::uint64_t updates = std::max<std::uint64_t>(divide_up(batches, gradient_accumulation_steps), 1);
  const double steps = std::ceil(num_train_epochs * static_cast<double>(updates));
  if (!(steps >= 0) || steps > kMostSteps) return std::nullopt;
  return static_cast<std::uint64_t>(steps);
}

std::optional<std::uint64_t> TrainerArguments::warmup(std::optional<std::uint64_t> steps) const {
  if (warmup_steps >= kMostSteps) return std::nullopt;
  if (warmup_steps >= 1) return static_cast<std::uint64_t>(warmup_steps);
  if (warmup_steps <= 0) return 0;
  if (!steps) return std::nullopt;
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(*steps) * warmup_steps));
}

}  // namespace zeroplan::planner::deepspeed
