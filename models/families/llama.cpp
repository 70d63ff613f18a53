// Llama and the dense families that differ from it in biases, query/key norms and defaults.
#include "models/families/families.h"

namespace zeroplan::models {
namespace {

/// What tells these families apart.
struct Variant {
  DecoderDefaults defaults;
  AttentionBias bias;
  bool mlp_bias = false;
  bool qk_norm = false;  ///< RMS norm of every query and key head
  bool tied = false;     ///< where the config is silent
};

void build(const HfConfig& config, Model& model, const Variant& variant) {
  const DecoderSizes s = read_decoder_sizes(config, variant.defaults);
  const bool tied = config.flag({"tie_word_embeddings"}, variant.tied);
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = same_block(
                     join({split_attention(s, variant.bias),
                           only_if(variant.qk_norm, {rms_norm("self_attn.q_norm", s.head_size),
                                                     rms_norm("self_attn.k_norm", s.head_size)}),
                           gated_mlp("mlp", s.hidden, s.ffn, variant.mlp_bias),
                           {rms_norm("input_layernorm", s.hidden), rms_norm("post_attention_layernorm", s.hidden)}})),
                 .top = {rms_norm("norm", s.hidden)},
                 .tied = tied});

  DecoderShape shape = llama_like_shape(config, s, model);
  shape.qkv_bias = variant.bias.qkv;
  shape.attention_out_bias = variant.bias.output;
  shape.mlp_bias = variant.mlp_bias;
  shape.qk_norm = variant.qk_norm;
  shape.tied_head = tied;
  model.decoder = std::move(shape);
}

}  // namespace

void build_llama(const HfConfig& config, Model& model) {
  const bool bias = config.flag({"attention_bias"}, false);
  build(config, model, {.defaults = {}, .bias = {bias, bias}, .mlp_bias = config.flag({"mlp_bias"}, false)});
}

void build_mistral(const HfConfig& config, Model& model) {
  build(config, model, {.defaults = {.kv_heads = 8, .ffn = 14336, .positions = 131072}, .bias = {}});
}

void build_qwen2(const HfConfig& config, Model& model) {
  // Biases on query, key and value are part of the architecture, not of the config.
  build(config, model,
        {.defaults = {.kv_heads = 32, .ffn = 22016, .vocab = 151936, .positions = 32768}, .bias = {.qkv = true}});
}

void build_qwen3(const HfConfig& config, Model& model) {
  const bool bias = config.flag({"attention_bias"}, false);
  build(config, model,
        {.defaults = {.kv_heads = 32, .head_size = 128, .ffn = 22016, .vocab = 151936, .positions = 32768},
         .bias = {bias, bias},
         .qk_norm = true});
}

}  // namespace zeroplan::models
