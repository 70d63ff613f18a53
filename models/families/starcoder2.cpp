#include "models/families/families.h"

namespace zeroplan::models {

void build_starcoder2(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config,
      {.hidden = 3072, .layers = 30, .heads = 24, .kv_heads = 2, .ffn = 12288, .vocab = 49152, .positions = 4096});
  const bool bias = config.flag({"use_bias"}, true);
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = same_block(join(
                     {split_attention(s, {bias, bias}),
                      {linear("mlp.c_fc", s.hidden, s.ffn, bias), linear("mlp.c_proj", s.ffn, s.hidden, bias),
                       layer_norm("input_layernorm", s.hidden), layer_norm("post_attention_layernorm", s.hidden)}})),
                 .top = {layer_norm("norm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, true)});
}

}  // namespace zeroplan::models
