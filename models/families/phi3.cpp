#include "models/families/families.h"

namespace zeroplan::models {

void build_phi3(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 3072, .layers = 32, .heads = 32, .ffn = 8192, .vocab = 32064, .positions = 4096});
  build_decoder(
      config, model, s,
      {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
       .block = same_block({linear("self_attn.o_proj", s.query_width(), s.hidden),
                            linear("self_attn.qkv_proj", s.hidden, s.query_width() + 2 * s.kv_width()),
                            linear("mlp.gate_up_proj", s.hidden, 2 * s.ffn), linear("mlp.down_proj", s.ffn, s.hidden),
                            rms_norm("input_layernorm", s.hidden), rms_norm("post_attention_layernorm", s.hidden)}),
       .top = {rms_norm("norm", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, false)});
}

}  // namespace zeroplan::models
