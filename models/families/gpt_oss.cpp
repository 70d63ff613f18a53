#include "models/families/families.h"

namespace zeroplan::models {

void build_gpt_oss(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(config, {.hidden = 2880,
                                                     .layers = 36,
                                                     .heads = 64,
                                                     .kv_heads = 8,
                                                     .head_size = 64,
                                                     .ffn = 2880,
                                                     .vocab = 201088,
                                                     .positions = 131072});
  const std::uint64_t experts = config.width({"num_local_experts", "num_experts"}, 128, kMostHeads);
  model.experts = experts;
  model.experts_per_token = config.width({"num_experts_per_tok", "experts_per_token"}, 4, experts);
  const bool bias = config.flag({"attention_bias"}, true);
  // Unlike other families these experts keep [in, out], and have biases.
  const Module expert_matrices{
      .name = "mlp.experts",
      .parameters = {{.name = "gate_up_proj", .shape = {experts, s.hidden, 2 * s.ffn}},
                     {.name = "gate_up_proj_bias", .shape = {experts, 2 * s.ffn}, .init = InitRule::kZeros},
                     {.name = "down_proj", .shape = {experts, s.ffn, s.hidden}},
                     {.name = "down_proj_bias", .shape = {experts, s.hidden}, .init = InitRule::kZeros}},
      .is_expert = true};
  build_decoder(config, model, s,
                {.embedding = {table("embed_tokens", s.vocab, s.hidden)},
                 .block = same_block(
                     join({{own("self_attn", "sinks", {s.heads})},
                           split_attention(s, {bias, bias}),
                           {linear("mlp.router", s.hidden, experts, true), expert_matrices,
                            rms_norm("input_layernorm", s.hidden), rms_norm("post_attention_layernorm", s.hidden)}})),
                 .top = {rms_norm("norm", s.hidden)},
                 .tied = config.flag({"tie_word_embeddings"}, false)});
}

}  // namespace zeroplan::models
