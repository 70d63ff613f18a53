#include <cmath>

#include "models/families/families.h"

namespace zeroplan::models {
namespace {

DecoderShape native_shape(const HfConfig& config, const DecoderSizes& sizes, bool tied, Model& model) {
  DecoderShape shape{.hidden = sizes.hidden,
                     .layers = sizes.layers,
                     .heads = sizes.heads,
                     .kv_heads = sizes.heads,
                     .head_size = sizes.head_size,
                     .ffn = sizes.ffn,
                     .vocab = sizes.vocab,
                     .positions = sizes.positions,
                     .norm = NormKind::kLayerNorm,
                     .mlp = MlpKind::kGelu,
                     .fused_qkv = true,
                     .weights_in_by_out = true,
                     .qkv_bias = true,
                     .attention_out_bias = true,
                     .mlp_bias = true,
                     .qk_norm = false,
                     .learned_positions = true,
                     .tied_head = tied,
                     .norm_epsilon = config.number({"layer_norm_epsilon"}, 1e-5),
                     .rope_theta = 0,
                     .rope_scaling = std::nullopt,
                     .sliding_window = 0};
  if (shape.norm_epsilon < 0) throw config.unexpected("layer_norm_epsilon", "not negative", "the usual value is 1e-5");
  const std::string activation = config.text({"activation_function"}, "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    add_obstacle(config, model, "activation_function", "computes gelu_new (GELU with tanh) in this family");
  }
  if (!config.flag({"scale_attn_weights"}, true)) {
    add_obstacle(config, model, "scale_attn_weights", "scales scores by 1/sqrt(head size)");
  }
  if (config.flag({"scale_attn_by_inverse_layer_idx"}, false)) {
    add_obstacle(config, model, "scale_attn_by_inverse_layer_idx", "scales all layers alike");
  }
  if (config.flag({"add_cross_attention"}, false)) {
    add_obstacle(config, model, "add_cross_attention", "has no cross-attention");
  }
  return shape;
}

}  // namespace

void build_gpt2(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 768, .layers = 12, .heads = 12, .ffn = 0, .vocab = 50257, .positions = 1024});
  const bool tied = config.flag({"tie_word_embeddings"}, true);
  // Both projections back into the residual stream start smaller, by the square root of their number.
  const double residual_scale = 1 / std::sqrt(2 * static_cast<double>(s.layers));
  const Modules cross_attention =
      only_if(config.flag({"add_cross_attention"}, false),
              {linear_in_by_out("crossattention.c_attn", s.hidden, 2 * s.hidden),
               linear_in_by_out("crossattention.q_attn", s.hidden, s.hidden),
               linear_in_by_out("crossattention.c_proj", s.hidden, s.hidden).scaled(residual_scale),
               layer_norm("ln_cross_attn", s.hidden)});
  build_decoder(
      config, model, s,
      {.root = "transformer.",
       .embedding = {table("wte", s.vocab, s.hidden), table("wpe", s.positions, s.hidden)},
       .layers = "h",
       .block = same_block(join(
           {{layer_norm("ln_1", s.hidden), linear_in_by_out("attn.c_attn", s.hidden, 3 * s.hidden),
             linear_in_by_out("attn.c_proj", s.hidden, s.hidden).scaled(residual_scale), layer_norm("ln_2", s.hidden)},
            cross_attention,
            {linear_in_by_out("mlp.c_fc", s.hidden, s.ffn),
             linear_in_by_out("mlp.c_proj", s.ffn, s.hidden).scaled(residual_scale)}})),
       .top = {layer_norm("ln_f", s.hidden)},
       .tied = tied});
  model.decoder = native_shape(config, s, tied, model);
}

}  // namespace zeroplan::models
