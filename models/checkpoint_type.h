// How the published weights are stored. Purpose: element type and quantisation of a checkpoint from its config.
#pragma once

#include "models/hf_config.h"
#include "models/model.h"

namespace zeroplan::models {

/// Sets checkpoint_dtype and quantisation, with a note for a quantised checkpoint: counts stay those of the logical
/// weights. \throws Error{kInvalidInput} for a type that is no text or not known.
void read_checkpoint_type(const HfConfig& config, Model& model);

}  // namespace zeroplan::models
