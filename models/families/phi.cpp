#include "models/families/families.h"

namespace zeroplan::models {

void build_phi(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(config, {.hidden = 2048, .layers = 24, .ffn = 8192, .vocab = 51200});
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = same_block(join(
                     {split_attention(s, {.qkv = true, .output = true}, "dense"),
                      only_if(config.flag({"qk_layernorm"}, false), {layer_norm("self_attn.q_layernorm", s.head_size),
                                                                     layer_norm("self_attn.k_layernorm", s.head_size)}),
                      {linear("mlp.fc1", s.hidden, s.ffn, true), linear("mlp.fc2", s.ffn, s.hidden, true),
                       layer_norm("input_layernorm", s.hidden)}})),
                 .top = {layer_norm("final_layernorm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, false),
                 .head_bias = true});
}

}  // namespace zeroplan::models
