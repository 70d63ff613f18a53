// What a training run says while it runs: lines of JSON in a file, progress on the terminal. Main type: StepLog.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "runtime/trainer.h"

namespace zeroplan::cli {

class StepLog {
 public:
  /// \param path  empty: no file. \throws Error{kIo} if it cannot be written
  StepLog(const std::string& path, const GlobalOptions& options, std::uint64_t first_step, std::uint64_t last_step);
  ~StepLog();

  void step(const runtime::StepReport& report);
  /// The last line.
  void summary(const Json& document);

 private:
  void write(const Json& line);
  void show(const runtime::StepReport& report);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
  bool shows_ = false;
  bool is_terminal_ = false;
  bool has_line_ = false;
  std::uint64_t last_step_;
  std::uint64_t interval_;  ///< steps between two lines where stderr is no terminal
  double smooth_step_s_ = 0;
};

}  // namespace zeroplan::cli
