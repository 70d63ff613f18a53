// Checks a ds_config.json before it costs a run. Purpose: findings with fixes, the batch sizes as DeepSpeed resolves
// them, the configuration with every `auto` filled, and failures explained. Main types: CheckInput, CheckReport; main
// function: check. Depends on models and on the value types of planner; must not depend on simulator or runtime.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/core/units.h"
#include "models/model.h"
#include "planner/deepspeed/finding.h"
#include "planner/machine.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::planner::deepspeed {

/// Who reads the configuration.
enum class ConfigReader { kDeepspeed, kHfTrainer, kAccelerate };

/// "deepspeed", "hf-trainer", "accelerate"; \throws Error{kUsage} for anything else.
ConfigReader parse_config_reader(const std::string& text);

/// What a run needs on each tier: device per rank, host per node, both in bytes.
struct MemoryNeed {
  Bytes device;
  Bytes host;
  std::string largest;  ///< names of what fills the device, for the message
};

/// Says what a run needs; so that a simulation can replace the closed form.
using MemoryEstimator = std::function<MemoryNeed(const models::Model&, const TrainingSpec&, const Strategy&)>;

/// Model states alone, in closed form, as DeepSpeed partitions them.
MemoryNeed closed_form_states(const models::Model& model, const TrainingSpec& training, const Strategy& strategy);

/// Everything a check may know. Only `config_text` or `error_log` must be there.
struct CheckInput {
  ConfigReader reader = ConfigReader::kDeepspeed;
  std::string config_file;  ///< named in places
  std::optional<std::string> config_text;
  Json trainer_arguments = Json::object();
  std::optional<std::string> accelerate_config;  ///< text of the YAML file
  std::optional<std::string> error_log;
  std::optional<std::string> client_optimizer;
  std::optional<std::uint64_t> dataset_rows;
  std::map<std::string, std::string> environment;
  Json model_config;                   ///< the model's config.json, null if there is none
  std::optional<models::Model> model;  ///< null where the family is unknown
  TrainingSpec training;               ///< gpus, nodes, seq, precision, optimizer, attention
  FixedDecisions decisions;            ///< from flags
  std::optional<Machine> machine;
  MemoryEstimator memory = closed_form_states;
};

/// Batch sizes by DeepSpeed's own arithmetic, also where it fails; null where it cannot be said.
struct ResolvedBatch {
  std::uint64_t world_size = 1;  ///< data-parallel ranks
  Json train_batch_size;
  Json micro_batch_size;
  Json accumulation_steps;
  Json to_json() const;
};

/// A tensor that matches a failed request.
struct Explanation {
  std::string name;
  std::string dtype;
  std::uint64_t bytes = 0;
  std::string formula;
  std::optional<std::uint64_t> tokens;  ///< the number of tokens that makes it so large
  Json to_json() const;
};

struct CheckReport {
  std::vector<Finding> findings;
  ResolvedBatch resolved;
  Json filled;  ///< null without a configuration
  std::optional<std::uint64_t> training_steps;
  std::optional<std::uint64_t> overflow_steps_until_stop;
  std::vector<Explanation> explanations;

  std::size_t count(Severity severity) const;
  /// The document of `zeroplan check`.
  Json to_json() const;
};

/// Never throws for what is wrong with the configuration: that is a finding.
CheckReport check(const CheckInput& input);

}  // namespace zeroplan::planner::deepspeed
