#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// Generations differ in norms: two a block, four, four and those of query and key heads.
void build(const HfConfig& config, Model& model, const DecoderDefaults& defaults, bool has_outer_norms,
           bool has_qk_norm) {
  const DecoderSizes s = read_decoder_sizes(config, defaults);
  const bool bias = config.flag({"attention_bias"}, false);
  build_decoder(
      config, model, s,
      {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
       .block = same_block(join(
           {split_attention(s, {bias, bias}),
            only_if(has_qk_norm, {rms_norm_from_zero("self_attn.q_norm", s.head_size),
                                  rms_norm_from_zero("self_attn.k_norm", s.head_size)}),
            gated_mlp("mlp", s.hidden, s.ffn),
            {rms_norm_from_zero("input_layernorm", s.hidden), rms_norm_from_zero("post_attention_layernorm", s.hidden)},
            only_if(has_outer_norms, {rms_norm_from_zero("pre_feedforward_layernorm", s.hidden),
                                      rms_norm_from_zero("post_feedforward_layernorm", s.hidden)})})),
       .top = {rms_norm_from_zero("norm", s.hidden)},
       .tied = config.flag({"tie_word_embeddings"}, true)});
}

}  // namespace

void build_gemma(const HfConfig& config, Model& model) {
  build(config, model,
        {.hidden = 3072,
         .layers = 28,
         .heads = 16,
         .kv_heads = 16,
         .head_size = 256,
         .ffn = 24576,
         .vocab = 256000,
         .positions = 8192},
        false, false);
}

void build_gemma2(const HfConfig& config, Model& model) {
  build(config, model,
        {.hidden = 2304,
         .layers = 26,
         .heads = 8,
         .kv_heads = 4,
         .head_size = 256,
         .ffn = 9216,
         .vocab = 256000,
         .positions = 8192},
        true, false);
}

void build_gemma3_text(const HfConfig& config, Model& model) {
  build(config, model,
        {.hidden = 2304,
         .layers = 26,
         .heads = 8,
         .kv_heads = 4,
         .head_size = 256,
         .ffn = 9216,
         .vocab = 262208,
         .positions = 131072},
        true, true);
}

}  // namespace zeroplan::models
