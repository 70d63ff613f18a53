#include "models/families/families.h"

namespace zeroplan::models {

void build_gptj(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 4096, .layers = 28, .heads = 16, .ffn = 0, .vocab = 50400, .positions = 2048});
  build_decoder(
      config, model, s,
      {.root = "transformer.",
       .embedding = {table("wte", s.vocab, s.hidden)},
       .layers = "h",
       .block = same_block({layer_norm("ln_1", s.hidden), linear("attn.k_proj", s.hidden, s.hidden),
                            linear("attn.v_proj", s.hidden, s.hidden), linear("attn.q_proj", s.hidden, s.hidden),
                            linear("attn.out_proj", s.hidden, s.hidden), linear("mlp.fc_in", s.hidden, s.ffn, true),
                            linear("mlp.fc_out", s.ffn, s.hidden, true)}),
       .top = {layer_norm("ln_f", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, false),
       .head_bias = true});
}

}  // namespace zeroplan::models
