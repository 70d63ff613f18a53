// Accelerate's own configuration file, as `accelerate config` writes it: YAML with nested mappings of plain values, or
// JSON. Depends on models/core only.
#pragma once

#include <string>
#include <vector>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

struct CheckInput;

/// The file as a document; values of YAML become true, false, null, numbers or texts.
struct AccelerateConfig {
  Json root = Json::object();
  std::vector<std::string> problems;  ///< sentences: lines that could not be read

  const Json* find(std::string_view key) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  /// The section deepspeed_config, null if there is none.
  const Json* deepspeed_section() const;
};

/// Reads the subset of YAML that `accelerate config` writes. Never throws for its content: see `problems`.
AccelerateConfig read_accelerate_config(std::string_view text);

/// The configuration of a check's input; empty if it has none.
AccelerateConfig accelerate_config_of(const CheckInput& input);

}  // namespace zeroplan::planner::deepspeed
