// Rotary position settings of a config. Purpose: the older `rope_theta` with `rope_scaling` and the newer
// `rope_parameters` read as one, and the inverse frequencies they define. Must not depend on a family.
#pragma once

#include <optional>
#include <vector>

#include "models/hf_config.h"
#include "models/model.h"

namespace zeroplan::models {

struct RopeSettings {
  double theta = 10000;
  std::optional<Json> scaling;  ///< none for the plain rotation; else the object with its type under "rope_type"
  std::string type = "default";
  double partial_factor = 1;  ///< share of the head that is rotated
};

/// \throws Error{kInvalidInput} for values that are no numbers or not positive.
RopeSettings read_rope(const HfConfig& config, double default_theta = 10000);

/// True for the scalings that `inverse_frequencies` computes: default, linear, llama3.
bool is_rope_known(const std::string& type);

/// head_size / 2 values: position x value = angle in radians. Formulas as in Hugging Face's modeling_rope_utils.
/// \throws Error{kUnsupported} for another scaling, Error{kInvalidInput} for one that lacks a value.
std::vector<double> inverse_frequencies(const DecoderShape& shape);

}  // namespace zeroplan::models
