#include <algorithm>
#include <array>

#include "simulator/profiles/block_modules.h"

namespace zeroplan::simulator {
namespace {

double config_number(const Json& config, std::initializer_list<std::string_view> keys, double fallback) {
  for (const std::string_view key : keys) {
    const auto it = config.find(key);
    if (it != config.end() && it->is_number()) return it->get<double>();
  }
  return fallback;
}

std::string config_text(const Json& config, std::initializer_list<std::string_view> keys, std::string fallback) {
  for (const std::string_view key : keys) {
    const auto it = config.find(key);
    if (it != config.end() && it->is_string()) return it->get<std::string>();
  }
  return fallback;
}

bool config_flag(const Json& config, std::string_view key, bool fallback) {
  const auto it = config.find(key);
  return it != config.end() && it->is_boolean() ? it->get<bool>() : fallback;
}

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

constexpr std::array<std::string_view, 13> kLlamaLike = {
    "llama",     "mistral",     "qwen2",       "qwen3", "phi3",   "mixtral", "qwen2_moe",
    "qwen3_moe", "deepseek_v2", "deepseek_v3", "llava", "cohere", "phimoe"};
constexpr std::array<std::string_view, 4> kGemma = {"gemma", "gemma2", "gemma3_text", "gemma3"};

ActivationStyle activation_of(const std::string& name) {
  if (name == "relu") return ActivationStyle::kRelu;
  if (name == "gelu_new") return ActivationStyle::kGeluComposite;
  if (name == "gelu_fast") return ActivationStyle::kGeluFast;
  if (name == "quick_gelu") return ActivationStyle::kQuickGelu;
  return ActivationStyle::kFusedKeepsInput;
}

/// GPT-2 and the other LayerNorm decoders.
std::optional<FamilyStyle> layer_norm_decoder(const std::string& family, const Json& config) {
  FamilyStyle s;
  s.norm = NormStyle::kLayerNorm;
  s.rotary = RotaryStyle::kAbsent;
  s.residual_dropout = config_number(config, {"resid_pdrop", "dropout", "hidden_dropout", "residual_dropout"}, 0);
  s.attention_dropout = config_number(config, {"attn_pdrop", "attention_dropout"}, 0);
  s.embedding_dropout = config_number(config, {"embd_pdrop", "embedding_dropout"}, 0);
  std::string activation = "gelu";
  if (family == "gpt2" || family == "gpt_bigcode") {
    activation = family == "gpt2" ? "gelu_new" : "gelu_pytorch_tanh";
    s.softmax_in_fp32 = family == "gpt_bigcode";
  } else if (family == "opt") {
    activation = "relu";
  } else if (family == "bloom") {
    s.eager_only = s.scaled_in_product = true;
  } else if (family == "gpt_neox" || family == "gptj" || family == "phi") {
    s.rotary = RotaryStyle::kPartial;
    s.copies_attention_output = true;
    s.parallel_residual = config_flag(config, "use_parallel_residual", true);
    s.rotary_fraction = config_number(config, {"rotary_pct", "partial_rotary_factor"}, family == "phi" ? 0.5 : 0.25);
    activation = family == "gpt_neox" ? "gelu" : "gelu_new";
    s.eager_only = family == "gptj";
  } else if (family == "falcon") {
    s.rotary = RotaryStyle::kFull;
    s.expands_heads = config_flag(config, "new_decoder_architecture", false);
    s.broadcasts_heads = !s.expands_heads && config_flag(config, "multi_query", true);
    s.parallel_residual =
        config_flag(config, "new_decoder_architecture", false) || config_flag(config, "parallel_attn", true);
  } else if (family == "starcoder2") {
    s.rotary = RotaryStyle::kFull;
    activation = "gelu_pytorch_tanh";
  } else {
    return std::nullopt;
  }
  s.activation = activation_of(config_text(config, {"activation_function", "hidden_act", "activation"}, activation));
  return s;
}

}  // namespace

const Json& text_config(const models::Model& model) {
  const auto it = model.config.find("text_config");
  return it != model.config.end() && it->is_object() ? *it : model.config;
}

std::uint64_t config_count(const Json& config, std::initializer_list<std::string_view> keys, std::uint64_t fallback) {
  for (const std::string_view key : keys) {
    const auto it = config.find(key);
    if (it != config.end() && it->is_number_unsigned()) return it->get<std::uint64_t>();
  }
  return fallback;
}

std::optional<FamilyStyle> family_style(const models::Model& model) {
  const Json& config = text_config(model);
  const std::string& family = model.family;
  FamilyStyle s;
  if (is_one_of(family, kLlamaLike)) {
    s.activation = activation_of(config_text(config, {"hidden_act"}, "silu"));
    if (family == "phi3") {
      s.slices_qkv = s.copies_attention_output = true;
      s.rotary = RotaryStyle::kPartial;
      s.rotary_fraction = config_number(config, {"partial_rotary_factor"}, 1);
    }
    if (family == "cohere") {
      s.norm = NormStyle::kCentred;
      s.scales_logits = true;
      s.parallel_residual = true;
    }
    if (family == "deepseek_v2" || family == "deepseek_v3") s.router_in_fp32 = s.copies_attention_output = true;
    if (family == "phimoe") s.norm = NormStyle::kLayerNorm;
    return s;
  }
  if (is_one_of(family, kGemma)) {
    s.norm = NormStyle::kRmsOnePlus;
    if (family == "gemma2") s.logit_softcap = config_number(config, {"final_logit_softcapping"}, 30);
    return s;
  }
  if (family == "olmo2" || family == "gpt_oss") {
    s.norm = NormStyle::kRmsFp32;
    s.eager_only = s.has_sinks = s.clamped_experts = family == "gpt_oss";
    return s;
  }
  if (family == "bert" || family == "roberta") {
    s.norm = NormStyle::kLayerNorm;
    s.rotary = RotaryStyle::kAbsent;
    s.norm_after_sublayer = true;
    s.causal = s.upcasts_loss = s.softmax_in_fp32 = false;
    s.activation = activation_of(config_text(config, {"hidden_act"}, "gelu"));
    s.residual_dropout = s.embedding_dropout = config_number(config, {"hidden_dropout_prob"}, 0);
    s.attention_dropout = config_number(config, {"attention_probs_dropout_prob"}, 0);
    return s;
  }
  if (family == "t5") {
    s.rotary = RotaryStyle::kAbsent;
    s.causal = s.upcasts_loss = false;
    s.norm = NormStyle::kRmsOfInput;
    s.softmax_in_fp32 = false;
    s.casts_mlp_to_weight = true;
    s.scales_head_input = config_flag(config, "tie_word_embeddings", true);
    const std::string kind = config_text(config, {"feed_forward_proj"}, "relu");
    s.activation = kind == "gated-gelu" ? ActivationStyle::kGeluComposite : activation_of(kind);
    s.residual_dropout = s.embedding_dropout = s.attention_dropout = config_number(config, {"dropout_rate"}, 0);
    return s;
  }
  return layer_norm_decoder(family, config);
}

}  // namespace zeroplan::simulator
