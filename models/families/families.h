// The families, one build function each in the file of its name. Must not be included outside models/families and the
// registry.
#pragma once

#include "models/family.h"

namespace zeroplan::models {

void build_gpt2(const HfConfig& config, Model& model);
void build_llama(const HfConfig& config, Model& model);
void build_mistral(const HfConfig& config, Model& model);
void build_qwen2(const HfConfig& config, Model& model);
void build_qwen3(const HfConfig& config, Model& model);

}  // namespace zeroplan::models
