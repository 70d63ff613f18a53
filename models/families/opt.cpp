#include "models/families/families.h"

namespace zeroplan::models {

void build_opt(const HfConfig& config, Model& model) {
  DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 768, .layers = 12, .heads = 12, .ffn = 3072, .vocab = 50272, .positions = 2048});
  s.ffn = config.width({"ffn_dim"}, 3072);
  const std::uint64_t embedding_width = config.optional_width({"word_embed_proj_dim"}).value_or(s.hidden);
  const bool is_projected = embedding_width != s.hidden;
  const bool bias = config.flag({"enable_bias"}, true);
  const bool has_affine_norms = config.flag({"layer_norm_elementwise_affine"}, true);
  const bool has_final_norm = config.flag({"do_layer_norm_before"}, true) &&
                              !config.flag({"_remove_final_layer_norm"}, false) && has_affine_norms;
  constexpr std::uint64_t kPositionOffset = 2;  // rows of the table in front of position 0
  const Heads heads = read_heads(config, model);
  const std::string root = heads.prefix("model.") + "decoder.";

  FamilyBuilder builder(model, init_std(config));
  builder.unit("embedding", UnitKind::kEmbedding, root,
               {table("embed_tokens", s.vocab, embedding_width),
                table("embed_positions", s.positions + kPositionOffset, s.hidden)});
  // Forward order differs from the order of parameters here: the library registers the final norm before the blocks.
  for (std::uint64_t i = 0; i < s.layers; ++i) builder.unit("block " + std::to_string(i), UnitKind::kBlock, "", {});
  builder.unit("head", UnitKind::kHead, root, only_if(is_projected, {linear("project_out", s.hidden, embedding_width)}))
      .unit("embedding", UnitKind::kEmbedding, root,
            only_if(is_projected, {linear("project_in", embedding_width, s.hidden)}))
      .unit("head", UnitKind::kHead, root, only_if(has_final_norm, {layer_norm("final_layer_norm", s.hidden)}))
      .blocks(root + "layers", s.layers,
              join({{linear("self_attn.k_proj", s.hidden, s.hidden, bias),
                     linear("self_attn.v_proj", s.hidden, s.hidden, bias),
                     linear("self_attn.q_proj", s.hidden, s.hidden, bias),
                     linear("self_attn.out_proj", s.hidden, s.hidden, bias)},
                    only_if(has_affine_norms, {layer_norm("self_attn_layer_norm", s.hidden)}),
                    {linear("fc1", s.hidden, s.ffn, bias), linear("fc2", s.ffn, s.hidden, bias)},
                    only_if(has_affine_norms, {layer_norm("final_layer_norm", s.hidden)})}));
  if (heads.classifier) {
    builder.unit("head", UnitKind::kHead, "", {linear("score", embedding_width, heads.labels)});
  } else if (heads.language_model) {
    builder.head(config.flag({"tie_word_embeddings"}, true), "lm_head", root + "embed_tokens", embedding_width,
                 s.vocab);
  }
  model.hidden = s.hidden;
  model.vocab = s.vocab;
  model.positions = s.positions;
}

}  // namespace zeroplan::models
