#include "models/families/families.h"

namespace zeroplan::models {

namespace {

void read_experts(const HfConfig& config, Model& model, std::uint64_t experts) {
  model.experts = config.width({"num_local_experts", "num_experts"}, experts, kMostHeads);
  model.experts_per_token = config.width({"num_experts_per_tok"}, 2, model.experts);
}

}  // namespace

void build_mixtral(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(config, {.kv_heads = 8, .ffn = 14336, .positions = 131072});
  read_experts(config, model, 8);
  build_decoder(
      config, model, s,
      {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
       .block = same_block(join(
           {split_attention(s, {}),
            {linear("mlp.gate", s.hidden, model.experts), fused_experts("mlp.experts", model.experts, s.hidden, s.ffn),
             rms_norm("input_layernorm", s.hidden), rms_norm("post_attention_layernorm", s.hidden)}})),
       .top = {rms_norm("norm", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, false)});
}

void build_phimoe(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(config, {.kv_heads = 8, .ffn = 6400, .vocab = 32064, .positions = 131072});
  const bool bias = config.flag({"attention_bias"}, false);
  read_experts(config, model, 16);
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = same_block(join(
                     {split_attention(s, {bias, bias}),
                      {linear("mlp.router", s.hidden, model.experts),
                       fused_experts("mlp.experts", model.experts, s.hidden, s.ffn),
                       layer_norm("input_layernorm", s.hidden), layer_norm("post_attention_layernorm", s.hidden)}})),
                 .top = {layer_norm("norm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, false),
                 .head_bias = config.flag({"lm_head_bias"}, false)});
}

}  // namespace zeroplan::models
