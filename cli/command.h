// What every command of the program is made of. Purpose: a command declares its flags and answers with a document and a
// text; `main` parses, prints and maps errors to exit codes. Main types: GlobalOptions, Answer, Command. Commands never
// print to stdout.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "models/core/json.h"

namespace zeroplan::cli {

enum class ColorMode { kAuto, kAlways, kNever };

/// Flags that each command takes.
struct GlobalOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  ColorMode color = ColorMode::kAuto;

  /// True if the text of stdout may carry colour (a terminal, or asked for).
  bool colored() const;
};

constexpr int kExitDone = 0;
constexpr int kExitNo = 1;
constexpr int kExitInvalid = 2;

/// What a command says: the document for `--json`, the text for people, and the exit code.
struct Answer {
  int exit_code = kExitDone;
  Json document = Json::object();
  std::string text;
  bool is_silent = false;  ///< another process of the run gives the answer
};

/// One command. Errors are thrown as `Error` and printed by main; one that ends a run which had begun exits 1, see
/// `RunFailed`.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  /// Declares arguments and flags on the sub-command.
  virtual void add_flags(CLI::App& app) = 0;
  /// Answers; called once, after parsing.
  virtual Answer run(const GlobalOptions& options) = 0;
};

/// An error of a run that had begun (a rank failed, the disk became full): same document, exit code 1.
class RunFailed : public Error {
 public:
  explicit RunFailed(const Error& cause) : Error(cause) {}
};

/// Ends this process with exit code 1 and no word: another process of the run says why.
class SaidElsewhere : public Error {
 public:
  explicit SaidElsewhere(const Error& cause) : Error(cause) {}
};

/// `{"error": {code, message, where, hint}}` of section 1 of the command line's contract.
Json error_document(const Error& error);

}  // namespace zeroplan::cli
