#include <algorithm>

#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// True if the layer has one dense MLP instead of experts.
bool is_dense(const HfConfig& config, const Model& model, std::uint64_t layer) {
  const std::vector<std::uint64_t> dense_layers = config.numbers("mlp_only_layers");
  if (std::find(dense_layers.begin(), dense_layers.end(), layer) != dense_layers.end()) return true;
  return model.experts == 0 || (layer + 1) % config.width({"decoder_sparse_step"}, 1) != 0;
}

Modules norms(std::uint64_t hidden) {
  return {rms_norm("input_layernorm", hidden), rms_norm("post_attention_layernorm", hidden)};
}

}  // namespace

void build_qwen2_moe(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config,
      {.hidden = 2048, .layers = 24, .heads = 16, .kv_heads = 16, .ffn = 5632, .vocab = 151936, .positions = 32768});
  model.experts = config.count({"num_experts"}, 60, kMostHeads);
  model.experts_per_token = config.count({"num_experts_per_tok"}, 4, model.experts);
  const std::uint64_t expert_ffn = config.width({"moe_intermediate_size"}, 1408);
  const std::uint64_t shared_ffn = config.width({"shared_expert_intermediate_size"}, 5632);
  const Modules attention = split_attention(s, {.qkv = config.flag({"qkv_bias"}, true)});
  const auto block = [&](std::uint64_t layer) {
    if (is_dense(config, model, layer)) return join({attention, gated_mlp("mlp", s.hidden, s.ffn), norms(s.hidden)});
    return join({attention,
                 {linear("mlp.gate", s.hidden, model.experts),
                  fused_experts("mlp.experts", model.experts, s.hidden, expert_ffn)},
                 gated_mlp("mlp.shared_expert", s.hidden, shared_ffn),
                 {linear("mlp.shared_expert_gate", s.hidden, 1)},
                 norms(s.hidden)});
  };
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = block,
                 .top = {rms_norm("norm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, false)});
}

void build_qwen3_moe(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config,
      {.hidden = 2048, .layers = 24, .heads = 32, .kv_heads = 4, .ffn = 6144, .vocab = 151936, .positions = 32768});
  model.experts = config.count({"num_experts", "num_local_experts"}, 128, kMostHeads);
  model.experts_per_token = config.count({"num_experts_per_tok"}, 8, model.experts);
  const std::uint64_t expert_ffn = config.width({"moe_intermediate_size"}, 768);
  const bool bias = config.flag({"attention_bias"}, false);
  const Modules attention =
      join({split_attention(s, {bias, bias}),
            {rms_norm("self_attn.q_norm", s.head_size), rms_norm("self_attn.k_norm", s.head_size)}});
  const auto block = [&](std::uint64_t layer) {
    if (is_dense(config, model, layer)) return join({attention, gated_mlp("mlp", s.hidden, s.ffn), norms(s.hidden)});
    return join({attention,
                 {fused_experts("mlp.experts", model.experts, s.hidden, expert_ffn),
                  linear("mlp.gate", s.hidden, model.experts)},
                 norms(s.hidden)});
  };
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = block,
                 .top = {rms_norm("norm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, false)});
}

}  // namespace zeroplan::models
