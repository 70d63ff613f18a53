#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// Norms of a block: with parallel attention one, or one for each branch; without it one before each.
Modules norms(const HfConfig& config, std::uint64_t hidden, bool is_new_architecture) {
  if (!config.flag({"parallel_attn"}, true)) {
    return {layer_norm("post_attention_layernorm", hidden), layer_norm("input_layernorm", hidden)};
  }
  const std::uint64_t count =
      config.optional_width({"num_ln_in_parallel_attn"}, 2).value_or(is_new_architecture ? 2 : 1);
  if (count == 2) return {layer_norm("ln_attn", hidden), layer_norm("ln_mlp", hidden)};
  return {layer_norm("input_layernorm", hidden)};
}

}  // namespace

void build_falcon(const HfConfig& config, Model& model) {
  DecoderSizes s = read_decoder_sizes(config, {.hidden = 4544, .layers = 32, .heads = 71, .ffn = 0, .vocab = 65024});
  s.ffn = config.optional_width({"ffn_hidden_size"}).value_or(4 * s.hidden);
  const bool is_new_architecture = config.flag({"new_decoder_architecture"}, false);
  const bool bias = config.flag({"bias"}, false);
  std::uint64_t qkv_width = 3 * s.hidden;
  if (is_new_architecture) {
    const std::uint64_t kv_heads = config.optional_width({"num_kv_heads"}, kMostHeads).value_or(s.heads);
    config.require_divides("num_kv_heads", kv_heads, "num_attention_heads", s.heads);
    qkv_width = (s.heads + 2 * kv_heads) * s.head_size;
  } else if (config.flag({"multi_query"}, true)) {
    qkv_width = s.hidden + 2 * s.head_size;
  }
  build_decoder(config, model, s,
                {.root = "transformer.",
                 .embedding = {table("word_embeddings", s.vocab, s.hidden)},
                 .layers = "h",
                 .block = same_block(join({{linear("self_attention.query_key_value", s.hidden, qkv_width, bias),
                                            linear("self_attention.dense", s.hidden, s.hidden, bias),
                                            linear("mlp.dense_h_to_4h", s.hidden, s.ffn, bias),
                                            linear("mlp.dense_4h_to_h", s.ffn, s.hidden, bias)},
                                           norms(config, s.hidden, is_new_architecture)})),
                 .top = {layer_norm("ln_f", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, true)});
}

}  // namespace zeroplan::models
