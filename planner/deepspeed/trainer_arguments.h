// The arguments of the Hugging Face trainer, with its defaults. Depends on models/core only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

/// What is absent has the trainer's default. Values keep the type that the trainer would have.
struct TrainerArguments {
  std::uint64_t per_device_train_batch_size = 8;
  std::uint64_t gradient_accumulation_steps = 1;
  double max_grad_norm = 1.0;
  double learning_rate = 5e-5;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double weight_decay = 0.0;
  double warmup_steps = 0;  ///< below 1: a fraction of the training steps
  double num_train_epochs = 3;
  std::int64_t max_steps = -1;
  bool fp16 = false;
  bool bf16 = false;
  std::string mixed_precision = "no";  ///< fp16, bf16 or no: what is asked for training, evaluation apart
  bool auto_find_batch_size = false;
  bool dataloader_drop_last = false;
  bool save_on_each_node = false;
  std::string optim = "adamw_torch";
  std::string lr_scheduler_type = "linear";
  bool batch_given = false;                       ///< per_device_train_batch_size was given
  bool scheduler_given = false;                   ///< lr_scheduler_type was given
  std::optional<std::uint64_t> scheduler_steps;   ///< total_num_steps of Accelerate's DummyScheduler, of all ranks
  std::optional<std::uint64_t> scheduler_warmup;  ///< warmup_num_steps of Accelerate's DummyScheduler
  bool split_batches = false;                     ///< Accelerate: the loader's batches are divided among the ranks
  std::vector<std::string> problems;              ///< sentences: arguments that are wrong in themselves

  /// Updates of the whole training; none if neither max_steps nor the rows of the data set are known.
  std::optional<std::uint64_t> training_steps(std::optional<std::uint64_t> dataset_rows, std::uint64_t ranks) const;
  /// Warm-up steps; none where they are a fraction of an unknown number.
  std::optional<std::uint64_t> warmup(std::optional<std::uint64_t> training_steps) const;
};

/// Reads the arguments; wrong types are noted as problems, never thrown. \throws Error{kInvalidInput} if it is no
/// object.
TrainerArguments read_trainer_arguments(const Json& arguments);

}  // namespace zeroplan::planner::deepspeed
