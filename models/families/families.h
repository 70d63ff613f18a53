// The families, one build function each in the file of its name. Must not be included outside models/families and the
// registry.
#pragma once

#include "models/family.h"

namespace zeroplan::models {

void build_albert(const HfConfig& config, Model& model);
void build_bart(const HfConfig& config, Model& model);
void build_bert(const HfConfig& config, Model& model);
void build_bloom(const HfConfig& config, Model& model);
void build_cohere(const HfConfig& config, Model& model);
void build_convnext(const HfConfig& config, Model& model);
void build_deberta_v2(const HfConfig& config, Model& model);
void build_deepseek_v2(const HfConfig& config, Model& model);
void build_deepseek_v3(const HfConfig& config, Model& model);
void build_falcon(const HfConfig& config, Model& model);
void build_gemma(const HfConfig& config, Model& model);
void build_gemma2(const HfConfig& config, Model& model);
void build_gemma3(const HfConfig& config, Model& model);
void build_gemma3_text(const HfConfig& config, Model& model);
void build_gpt2(const HfConfig& config, Model& model);
void build_gpt_bigcode(const HfConfig& config, Model& model);
void build_gpt_neox(const HfConfig& config, Model& model);
void build_gpt_oss(const HfConfig& config, Model& model);
void build_gptj(const HfConfig& config, Model& model);
void build_llama(const HfConfig& config, Model& model);
void build_llava(const HfConfig& config, Model& model);
void build_mistral(const HfConfig& config, Model& model);
void build_mixtral(const HfConfig& config, Model& model);
void build_olmo2(const HfConfig& config, Model& model);
void build_opt(const HfConfig& config, Model& model);
void build_phi(const HfConfig& config, Model& model);
void build_phi3(const HfConfig& config, Model& model);
void build_phimoe(const HfConfig& config, Model& model);
void build_qwen2(const HfConfig& config, Model& model);
void build_qwen2_moe(const HfConfig& config, Model& model);
void build_qwen3(const HfConfig& config, Model& model);
void build_qwen3_moe(const HfConfig& config, Model& model);
void build_roberta(const HfConfig& config, Model& model);
void build_starcoder2(const HfConfig& config, Model& model);
void build_t5(const HfConfig& config, Model& model);
void build_vit(const HfConfig& config, Model& model);
void build_whisper(const HfConfig& config, Model& model);

}  // namespace zeroplan::models
