#include "models/families/families.h"

namespace zeroplan::models {

void build_olmo2(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(config, {.vocab = 50304});
  const bool bias = config.flag({"attention_bias"}, false);
  build_decoder(
      config, model, s,
      {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
       .block = same_block(
           join({split_attention(s, {bias, bias}),
                 {rms_norm("self_attn.q_norm", s.query_width()), rms_norm("self_attn.k_norm", s.kv_width())},
                 gated_mlp("mlp", s.hidden, s.ffn),
                 {rms_norm("post_attention_layernorm", s.hidden), rms_norm("post_feedforward_layernorm", s.hidden)}})),
       .top = {rms_norm("norm", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, false)});
}

}  // namespace zeroplan::models
