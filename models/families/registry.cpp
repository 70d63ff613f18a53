#include <algorithm>
#include <array>

#include "models/families/families.h"

namespace zeroplan::models {
namespace {

constexpr std::array kFamilies = {
    Family{"albert", build_albert},
    Family{"bart", build_bart, "dropout = 0.1"},
    Family{"bert", build_bert, "hidden_dropout_prob = 0.1"},
    Family{"bloom", build_bloom},
    Family{"cohere", build_cohere},
    Family{"convnext", build_convnext},
    Family{"deberta-v2", build_deberta_v2, "hidden_dropout_prob = 0.1"},
    Family{"deepseek_v2", build_deepseek_v2},
    Family{"deepseek_v3", build_deepseek_v3},
    Family{"falcon", build_falcon},
    Family{"gemma", build_gemma},
    Family{"gemma2", build_gemma2},
    Family{"gemma3", build_gemma3},
    Family{"gemma3_text", build_gemma3_text},
    Family{"gpt2", build_gpt2, "resid_pdrop = 0.1"},
    Family{"gpt_bigcode", build_gpt_bigcode, "resid_pdrop = 0.1"},
    Family{"gpt_neox", build_gpt_neox},
    Family{"gpt_oss", build_gpt_oss},
    Family{"gptj", build_gptj},
    Family{"llama", build_llama},
    Family{"llava", build_llava},
    Family{"mistral", build_mistral},
    Family{"mixtral", build_mixtral},
    Family{"olmo2", build_olmo2},
    Family{"opt", build_opt, "dropout = 0.1"},
    Family{"phi", build_phi},
    Family{"phi3", build_phi3},
    Family{"phimoe", build_phimoe},
    Family{"qwen2", build_qwen2},
    Family{"qwen2_moe", build_qwen2_moe},
    Family{"qwen3", build_qwen3},
    Family{"qwen3_moe", build_qwen3_moe},
    Family{"roberta", build_roberta, "hidden_dropout_prob = 0.1"},
    Family{"starcoder2", build_starcoder2},
    Family{"t5", build_t5, "dropout_rate = 0.1"},
    Family{"vit", build_vit},
    Family{"whisper", build_whisper},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto it = std::find_if(kFamilies.begin(), kFamilies.end(),
                               [&](const Family& family) { return family.model_type == model_type; });
  return it == kFamilies.end() ? nullptr : &*it;
}

}  // namespace zeroplan::models
