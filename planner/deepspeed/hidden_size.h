// The width of a model's residual stream out of any config.json. Depends on models/core only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

/// A width and where it was found.
struct HiddenSize {
  std::uint64_t value = 0;
  std::string path;              ///< "hidden_size", "text_config.hidden_size", "max of hidden_sizes"
  bool trainer_finds = true;     ///< the trainer's own look-up gives it
  bool accelerate_finds = true;  ///< Accelerate's own look-up gives it (it does not look into text_config)
};

/// Looks where the trainer looks (hidden_size under any of its spellings, the largest of hidden_sizes, then
/// text_config), then into the other parts of composite configs, then for the default of a known family. Nothing if no
/// width is found.
std::optional<HiddenSize> find_hidden_size(const Json& model_config);

}  // namespace zeroplan::planner::deepspeed
