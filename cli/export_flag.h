// The flag --export KIND=FILE of plan and tune. Main type: ExportFlag.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "planner/plan.h"
#include "planner/run_record.h"
#include "reports/exports.h"

namespace zeroplan::cli {

class ExportFlag {
 public:
  void add_to(CLI::App& app);

  /// Checks what was typed, before anything is searched. \throws Error{kUsage}
  void parse();
  bool any() const { return !files_.empty(); }

  /// Writes all files, each of them whole or not at all. \returns a line for each
  /// \throws Error{kIo}
  std::string write(reports::ExportSource source) const;

 private:
  struct File {
    reports::ExportKind kind;
    std::string path;
  };

  std::vector<std::string> texts_;
  std::vector<File> files_;
};

/// Sentences on what a native plan takes, and on the memory that the framework of the exported file takes instead.
std::vector<std::string> native_predictions(const planner::Plan& plan, const planner::RunRecord& predicted);

}  // namespace zeroplan::cli
