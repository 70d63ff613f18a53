// Figures about a model's parameters, and freezing a part of them. Main types: ParameterSummary; functions summarise,
// freeze.
#pragma once

#include <span>
#include <string>

#include "models/model.h"

namespace zeroplan::models {

struct ParameterSummary {
  Elements total;  ///< tied tensors once
  Elements trainable;
  Elements with_tied_twice;  ///< once per name
  Elements active;           ///< used per token
  Elements largest_module;   ///< largest sum of parameters that one module owns itself, under its tied names too
  std::string largest_module_name;
  std::uint64_t tensor_count = 0;  ///< tied tensors once
};

ParameterSummary summarise(const Model& model);

/// Marks parameters as not trainable whose dotted name has a part that matches one of the patterns: a name
/// ("embed_tokens") or a glob with * and ? ("layers.*.mlp"); a pattern with dots matches as many parts in a row. "*" is
/// every parameter. \throws Error{kUsage} for a pattern that matches nothing.
void freeze(Model& model, std::span<const std::string> patterns);

/// True if `text` matches the glob: * is any text, ? one character.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace zeroplan::models
