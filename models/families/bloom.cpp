#include "models/families/families.h"

namespace zeroplan::models {

void build_bloom(const HfConfig& config, Model& model) {
  DecoderSizes s =
      read_decoder_sizes(config, {.hidden = 64, .layers = 2, .heads = 8, .ffn = 0, .vocab = 250880, .positions = 2048});
  s.ffn = 4 * s.hidden;  // not a field of the config
  build_decoder(
      config, model, s,
      {.root = "transformer.",
       .embedding = {table("word_embeddings", s.vocab, s.hidden), layer_norm("word_embeddings_layernorm", s.hidden)},
       .layers = "h",
       .block = same_block(
           {layer_norm("input_layernorm", s.hidden),
            linear("self_attention.query_key_value", s.hidden, 3 * s.hidden, true),
            linear("self_attention.dense", s.hidden, s.hidden, true), layer_norm("post_attention_layernorm", s.hidden),
            linear("mlp.dense_h_to_4h", s.hidden, s.ffn, true), linear("mlp.dense_4h_to_h", s.ffn, s.hidden, true)}),
       .top = {layer_norm("ln_f", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, true)});
}

}  // namespace zeroplan::models
