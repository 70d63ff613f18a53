#include "models/families/families.h"

namespace zeroplan::models {

void build_gpt_bigcode(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 768, .layers = 12, .heads = 12, .ffn = 0, .vocab = 50257, .positions = 1024});
  // One key and value head for all queries, unless multi_query is turned off.
  const std::uint64_t kv_width = config.flag({"multi_query"}, true) ? s.head_size : s.hidden;
  build_decoder(config, model, s,
                {.root = "transformer.",
                 .embedding = {table("wte", s.vocab, s.hidden), table("wpe", s.positions, s.hidden)},
                 .layers = "h",
                 .block = same_block(
                     {layer_norm("ln_1", s.hidden), linear("attn.c_attn", s.hidden, s.hidden + 2 * kv_width, true),
                      linear("attn.c_proj", s.hidden, s.hidden, true), layer_norm("ln_2", s.hidden),
                      linear("mlp.c_fc", s.hidden, s.ffn, true), linear("mlp.c_proj", s.ffn, s.hidden, true)}),
                 .top = {layer_norm("ln_f", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, true)});
}

}  // namespace zeroplan::models
