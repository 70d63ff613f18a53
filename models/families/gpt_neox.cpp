#include "models/families/families.h"

namespace zeroplan::models {

void build_gpt_neox(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 6144, .layers = 44, .heads = 64, .ffn = 24576, .vocab = 50432, .positions = 2048});
  const bool bias = config.flag({"attention_bias"}, true);
  build_decoder(
      config, model, s,
      {.root = "gpt_neox.",
       .embedding = {table("embed_in", s.vocab, s.hidden)},
       .block = same_block({layer_norm("input_layernorm", s.hidden), layer_norm("post_attention_layernorm", s.hidden),
                            linear("attention.query_key_value", s.hidden, 3 * s.hidden, bias),
                            linear("attention.dense", s.hidden, s.hidden, bias),
                            linear("mlp.dense_h_to_4h", s.hidden, s.ffn, true),
                            linear("mlp.dense_4h_to_h", s.ffn, s.hidden, true)}),
       .top = {layer_norm("final_layer_norm", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, false)});
}

}  // namespace zeroplan::models
