// A Model from nothing but tensors. Purpose: parameter counts where no family describes the model.
#pragma once

#include <string>

#include "models/model.h"
#include "models/safetensors.h"

namespace zeroplan::models {

/// Parameters in the order of the files; units from the numbers in their names ("model.layers.7." is block 7 of
/// "model.layers"). Notes say what a header does not tell: ties, shapes of activations, which tensors are buffers or
/// frozen. Packed tensors of a quantised checkpoint are counted as what they are: stored elements.
Model model_of_tensors(const TensorIndex& index, const std::string& name, const std::string& source);

}  // namespace zeroplan::models
