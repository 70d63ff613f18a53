// The rules of `check`, one file a subject. Each reads the workspace and adds findings; those that fill or resolve also
// change it. Order matters only where a comment says so.
#pragma once

#include <string>
#include <string_view>

#include "planner/deepspeed/check.h"
#include "planner/deepspeed/config_text.h"
#include "planner/deepspeed/config_tree.h"
#include "planner/deepspeed/finding.h"
#include "planner/deepspeed/trainer_arguments.h"

namespace zeroplan::planner::deepspeed {

/// What the rules share.
struct Workspace {
  const CheckInput& input;
  const ConfigText& text;
  const ConfigTree& given;  ///< as the file has it
  ConfigTree filled;        ///< with `auto` replaced
  TrainerArguments arguments;
  Findings& findings;
  CheckReport& report;

  bool is_trainer() const { return input.reader == ConfigReader::kHfTrainer; }
  bool is_accelerate() const { return input.reader == ConfigReader::kAccelerate; }
  bool someone_fills() const { return input.reader != ConfigReader::kDeepspeed; }

  /// ZeRO stage that DeepSpeed makes of the file, 0 if it names none.
  int stage() const;
  /// "none", "cpu" or "nvme": the device of offload_optimizer or offload_param, old spellings included.
  std::string offload_device(std::string_view section) const;
  /// A strict section's values as DeepSpeed converts them; the fallback where they are absent, auto or wrong.
  bool flag(std::string_view path, bool fallback) const;
  std::int64_t integer(std::string_view path, std::int64_t fallback) const;
  double number(std::string_view path, double fallback) const;
  std::string word(std::string_view path, std::string_view fallback) const;
  /// An integer of zero_optimization under its name or its stage3_ alias. `found` gets the path that the file has.
  std::int64_t zero_integer(std::string_view name, std::int64_t fallback) const;
};

void report_reader_remarks(Workspace& work);    ///< json: comments, commas, duplicate keys
void check_keys_and_types(Workspace& work);     ///< unknown, misspelt, misplaced, old keys; wrong types and limits
void match_trainer_arguments(Workspace& work);  ///< fills what the trainer fills, lists every mismatch
void fill_for_accelerate(Workspace& work);      ///< fills what Accelerate fills
void fill_model_sizes(Workspace& work);         ///< the three keys that follow from the model's width
void report_unfilled_autos(Workspace& work);    ///< after all fills
void resolve_batch(Workspace& work);            ///< after all fills
void check_optimizer(Workspace& work);
void check_scheduler(Workspace& work);
void check_precision(Workspace& work);
void check_stage(Workspace& work);    ///< keys without effect, combinations that fail
void check_offload(Workspace& work);  ///< NVMe paths, buffer sizes and counts
void check_saving(Workspace& work);
void check_accelerate_config(Workspace& work);
void check_environment(Findings& findings, const CheckInput& input);
void check_memory(Workspace& work);

/// Explains the error log. `work` is null without a configuration.
void explain_error_log(Findings& findings, const CheckInput& input, CheckReport& report, Workspace* work);

}  // namespace zeroplan::planner::deepspeed
