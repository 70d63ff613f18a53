// What `check` has to say about a configuration. Main types: Severity, Finding, Findings. Depends on models/core only.
#pragma once

#include <string>
#include <vector>

#include "models/core/json.h"
#include "planner/deepspeed/config_text.h"
#include "planner/deepspeed/config_tree.h"

namespace zeroplan::planner::deepspeed {

enum class Severity { kError, kWarning, kInfo };

/// "error", "warning", "info"
std::string_view to_string(Severity severity);

/// One thing that is wrong, or worth knowing.
struct Finding {
  Severity severity = Severity::kInfo;
  std::string key;      ///< dotted path, or json, memory, accelerate, args, env, model
  std::string message;  ///< what was found and what was expected
  std::string fix;      ///< what to do
  Json suggest;         ///< the value to write, or null
  Json where;           ///< {file, line, column, key, value} or null

  Json to_json() const;
};

/// Collects findings about one text and fills in where the key stands.
class Findings {
 public:
  /// `text` and `given` may be null (no configuration); they must outlive this.
  Findings(const ConfigText* text, const ConfigTree* given) : text_(text), given_(given) {}

  void error(std::string key, std::string message, std::string fix, Json suggest = nullptr);
  void warning(std::string key, std::string message, std::string fix, Json suggest = nullptr);
  void info(std::string key, std::string message, std::string fix, Json suggest = nullptr);
  /// With a place of its own.
  void add_at(Severity severity, std::string key, TextPosition at, std::string message, std::string fix);

  bool has_error(std::string_view key) const;
  std::size_t count(Severity severity) const;
  const std::vector<Finding>& all() const { return all_; }
  /// Errors first, then by place in the text; otherwise in the order of discovery.
  std::vector<Finding> sorted() const;

 private:
  void add(Severity severity, std::string key, std::string message, std::string fix, Json suggest);
  Json place(const std::string& key) const;

  const ConfigText* text_;
  const ConfigTree* given_;
  std::vector<Finding> all_;
};

}  // namespace zeroplan::planner::deepspeed
