// The flags that describe a run (interface.md section 2), shared by estimate, plan, tune and check.
// Main types: RunFlags (as typed), RunRequest (checked and complete).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "models/model.h"
#include "planner/machine.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::cli {

/// What the flags say about a run, checked.
struct RunRequest {
  planner::TrainingSpec training;
  planner::FixedDecisions fixed;
  std::vector<std::uint64_t> stages;        ///< asked for with --stage; empty: not given
  std::optional<planner::Machine> machine;  ///< budgets with --budget, --host-budget, --disk-budget put in
  bool seq_given = false;
  bool framework_given = false;
  std::vector<std::string> notes;
};

/// The stages that a plan of this framework may have: those asked for, else all that it knows.
std::vector<std::uint64_t> stages_of(const RunRequest& request);

/// Declares the flags and turns them into a RunRequest.
class RunFlags {
 public:
  /// \param own_framework  false where the command has a --framework of its own
  void add_to(CLI::App& app, bool own_framework = true);

  /// \param model  gives the default sequence length; may be null
  /// \throws Error{kUsage, kInvalidInput}
  RunRequest resolve(const models::Model* model) const;

  /// The text of a flag, if it was given ("--deepspeed", "--stage", ...).
  std::optional<std::string> given(const std::string& flag) const;

 private:
  void add(CLI::App& app, const std::string& flag, const std::string& help);
  std::optional<std::uint64_t> count(const std::string& flag) const;

  std::map<std::string, std::string> values_;
};

}  // namespace zeroplan::cli
