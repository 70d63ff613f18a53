// Model configs that come with the program. Purpose: a model by name, without a file. Depends on core only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeroplan::models {

struct Preset {
  std::string_view name;
  std::string_view config;  ///< config.json of the published model, fields that do not matter here left out
};

/// All presets, sorted by name.
std::span<const Preset> presets();
/// nullptr if there is none of this name (upper and lower case are equal).
const Preset* find_preset(std::string_view name);
/// Up to `most` preset names that are most like `name`, the nearest first.
std::vector<std::string> nearest_presets(std::string_view name, std::size_t most = 3);

}  // namespace zeroplan::models
