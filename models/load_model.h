// From what a user names to a Model. Purpose: a folder, a config file, a safetensors file or a preset becomes the one
// data structure that everything else reads. Main functions: load_model, build_model. Must not depend on planner or
// runtime.
#pragma once

#include <string>

#include "models/core/json.h"
#include "models/model.h"

namespace zeroplan::models {

/// The model that `source` names: a folder with config.json, a config file, a .safetensors file or its index (names and
/// shapes only), or a preset. A family that is not known falls back to the safetensors files beside the config, with a
/// note. \throws Error{kInvalidInput} for a wrong file (place and hint set), Error{kUnsupported} for a family that is
/// not known and
///   has no tensors beside it, Error{kUsage} for a name that is neither a path nor a preset (the hint names the
///   nearest), Error{kIo} for what cannot be read.
Model load_model(const std::string& source);

/// The model of a parsed config; `source` is named in errors and becomes the model's name (a path's file name, without
/// its ending). \throws as `load_model`.
Model build_model(const Json& config, const std::string& source);

}  // namespace zeroplan::models
