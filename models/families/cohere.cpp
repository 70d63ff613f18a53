#include "models/families/families.h"

namespace zeroplan::models {

void build_cohere(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 8192, .layers = 40, .heads = 64, .ffn = 22528, .vocab = 256000, .positions = 8192});
  const bool bias = config.flag({"attention_bias"}, false);
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = same_block(
                     join({split_attention(s, {bias, bias}),
                           only_if(config.flag({"use_qk_norm"}, false),
                                   {own("self_attn.q_norm", "weight", {s.heads, s.head_size}, InitRule::kOnes),
                                    own("self_attn.k_norm", "weight", {s.kv_heads, s.head_size}, InitRule::kOnes)}),
                           gated_mlp("mlp", s.hidden, s.ffn),
                           {layer_norm("input_layernorm", s.hidden, /*bias=*/false)}})),
                 .top = {layer_norm("norm", s.hidden, /*bias=*/false)},
                 .tied = config.flag({"tie_word_embeddings"}, true)});
}

}  // namespace zeroplan::models
