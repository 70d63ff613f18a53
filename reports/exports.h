// A tuned strategy in the words of other frameworks: DeepSpeed's JSON, Accelerate's YAML, settings of FSDP2 and
// torchtitan. Main types: ExportKind, ExportSource. Keys and defaults: DeepSpeed 0.19.6, Accelerate (July 2026),
// torchtitan (2026). Depends on planner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "planner/machine.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::reports {

enum class ExportKind { kDeepspeed, kAccelerate, kFsdp };
/// deepspeed, accelerate, fsdp
std::string_view to_string(ExportKind kind);
/// \throws Error{kUsage}
ExportKind parse_export_kind(std::string_view name);

/// What is exported.
struct ExportSource {
  const models::Model& model;
  const planner::Machine& machine;
  const planner::TrainingSpec& training;
  planner::Strategy strategy;
  std::vector<std::string> predictions;       ///< sentences on memory and speed, for the comment block
  std::optional<std::string> deepspeed_file;  ///< that Accelerate shall read; empty: all settings inline
};

/// ds_config.json. The comment block is the top-level key `zeroplan`, which DeepSpeed does not look at.
std::string deepspeed_config_text(const ExportSource& source);

/// The file of `accelerate launch --config_file`: for FSDP2 if that is the framework, else for DeepSpeed.
std::string accelerate_config_text(const ExportSource& source);

/// Arguments of `fully_shard` and the keys of torchtitan that say the same.
std::string fsdp_settings_text(const ExportSource& source);

std::string export_text(ExportKind kind, const ExportSource& source);

/// What the other framework's file cannot say, in sentences.
std::vector<std::string> export_notes(const ExportSource& source);

}  // namespace zeroplan::reports
