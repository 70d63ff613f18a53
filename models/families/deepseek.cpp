#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// What differs between the generations' defaults.
struct Defaults {
  DecoderDefaults decoder;
  std::uint64_t experts, experts_per_token, shared_experts, expert_ffn, dense_layers;
};

/// Multi-head latent attention: query and key/value go through low ranks; rotary parts of the heads are kept apart.
Modules latent_attention(const HfConfig& config, const DecoderSizes& s) {
  const std::uint64_t nope = config.width({"qk_nope_head_dim"}, 128);
  const std::uint64_t rope = config.width({"qk_rope_head_dim"}, 64);
  const std::uint64_t value = config.width({"v_head_dim"}, 128);
  const std::uint64_t kv_rank = config.width({"kv_lora_rank"}, 512);
  const std::uint64_t query_width = s.heads * (nope + rope);
  const bool bias = config.flag({"attention_bias"}, false);
  Modules query = {linear("self_attn.q_proj", s.hidden, query_width)};
  if (!config.is_null("q_lora_rank")) {
    const std::uint64_t rank = config.width({"q_lora_rank"}, 1536);
    query = {linear("self_attn.q_a_proj", s.hidden, rank, bias), rms_norm("self_attn.q_a_layernorm", rank),
             linear("self_attn.q_b_proj", rank, query_width)};
  }
  return join(
      {query,
       {linear("self_attn.kv_a_proj_with_mqa", s.hidden, kv_rank + rope, bias),
        rms_norm("self_attn.kv_a_layernorm", kv_rank), linear("self_attn.kv_b_proj", kv_rank, s.heads * (nope + value)),
        linear("self_attn.o_proj", s.heads * value, s.hidden, bias)}});
}

void build(const HfConfig& config, Model& model, const Defaults& defaults) {
  DecoderDefaults decoder = defaults.decoder;
  decoder.head_size = 64;  // of no use here: the latent attention has head sizes of its own
  const DecoderSizes s = read_decoder_sizes(config, decoder);
  model.experts = config.width({"n_routed_experts"}, defaults.experts, kMostHeads);
  model.experts_per_token = config.width({"num_experts_per_tok"}, defaults.experts_per_token, model.experts);
  const std::uint64_t expert_ffn = config.width({"moe_intermediate_size"}, defaults.expert_ffn);
  const std::uint64_t shared = config.count({"n_shared_experts"}, defaults.shared_experts, kMostHeads);
  const std::uint64_t dense_layers = config.count({"first_k_dense_replace"}, defaults.dense_layers, kMostLayers);
  if (config.count({"num_nextn_predict_layers"}, 0) > 0) {
    model.notes.push_back(
        "the multi-token prediction layers of the checkpoint are not built by the library: not counted");
  }
  const Modules attention = latent_attention(config, s);
  const Modules norms = {rms_norm("input_layernorm", s.hidden), rms_norm("post_attention_layernorm", s.hidden)};
  const auto block = [&](std::uint64_t layer) {
    if (layer < dense_layers) return join({attention, gated_mlp("mlp", s.hidden, s.ffn), norms});
    return join({attention,
                 {fused_experts("mlp.experts", model.experts, s.hidden, expert_ffn),
                  linear("mlp.gate", s.hidden, model.experts)},
                 only_if(shared > 0, gated_mlp("mlp.shared_experts", s.hidden, expert_ffn * shared)),
                 norms});
  };
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = block,
                 .top = {rms_norm("norm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, false)});
}

}  // namespace

void build_deepseek_v2(const HfConfig& config, Model& model) {
  build(config, model,
        {.decoder = {.vocab = 102400},
         .experts = 64,
         .experts_per_token = 6,
         .shared_experts = 2,
         .expert_ffn = 1407,
         .dense_layers = 0});
}

void build_deepseek_v3(const HfConfig& config, Model& model) {
  build(config, model,
        {.decoder = {.hidden = 7168, .layers = 61, .heads = 128, .ffn = 18432, .vocab = 129280, .positions = 4096},
         .experts = 256,
         .experts_per_token = 8,
         .shared_experts = 1,
         .expert_ffn = 2048,
         .dense_layers = 3});
}

}  // namespace zeroplan::models
