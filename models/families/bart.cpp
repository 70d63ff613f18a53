#include "models/families/families.h"

namespace zeroplan::models {

namespace {

Modules attention(const std::string& name, std::uint64_t hidden) {
  return {linear(name + ".k_proj", hidden, hidden, true), linear(name + ".v_proj", hidden, hidden, true),
          linear(name + ".q_proj", hidden, hidden, true), linear(name + ".out_proj", hidden, hidden, true),
          layer_norm(name + "_layer_norm", hidden)};
}

Modules feed_forward(std::uint64_t hidden, std::uint64_t ffn) {
  return {linear("fc1", hidden, ffn, true), linear("fc2", ffn, hidden, true), layer_norm("final_layer_norm", hidden)};
}

}  // namespace

void build_bart(const HfConfig& config, Model& model) {
  const std::uint64_t hidden = config.width({"d_model", "hidden_size"}, 1024);
  const std::uint64_t vocab = config.rows({"vocab_size"}, 50265);
  const std::uint64_t positions = config.rows({"max_position_embeddings"}, 1024);
  const std::uint64_t encoder_heads = config.heads({"encoder_attention_heads"}, 16);
  const std::uint64_t decoder_heads = config.heads({"decoder_attention_heads"}, 16);
  config.require_divides("encoder_attention_heads", encoder_heads, "d_model", hidden);
  config.require_divides("decoder_attention_heads", decoder_heads, "d_model", hidden);
  constexpr std::uint64_t kPositionOffset = 2;  // rows of the table in front of position 0
  const std::string architecture = config.architecture();
  const bool is_bare = architecture == "BartModel";
  const std::string root = is_bare ? "" : "model.";

  FamilyBuilder builder(model, init_std(config));
  builder.unit("embedding", UnitKind::kEmbedding, root, {table("shared", vocab, hidden)})
      .tie(root + "encoder.embed_tokens.weight", root + "shared.weight", "embedding")
      .unit("embedding", UnitKind::kEmbedding, root,
            {table("encoder.embed_positions", positions + kPositionOffset, hidden)})
      .blocks(root + "encoder.layers", config.layers({"encoder_layers", "num_hidden_layers"}, 12),
              join({attention("self_attn", hidden), feed_forward(hidden, config.width({"encoder_ffn_dim"}, 4096))}),
              "encoder ")
      .unit("embedding", UnitKind::kEmbedding, root, {layer_norm("encoder.layernorm_embedding", hidden)})
      .unit("decoder embedding", UnitKind::kEmbedding, root, {})
      .tie(root + "decoder.embed_tokens.weight", root + "shared.weight", "decoder embedding")
      .unit("decoder embedding", UnitKind::kEmbedding, root,
            {table("decoder.embed_positions", positions + kPositionOffset, hidden)})
      .blocks(root + "decoder.layers", config.layers({"decoder_layers"}, 12),
              join({attention("self_attn", hidden), attention("encoder_attn", hidden),
                    feed_forward(hidden, config.width({"decoder_ffn_dim"}, 4096))}),
              "decoder ")
      .unit("decoder embedding", UnitKind::kEmbedding, root, {layer_norm("decoder.layernorm_embedding", hidden)});
  if (!is_bare) builder.head(config.flag({"tie_word_embeddings"}, true), "lm_head", root + "shared", hidden, vocab);
  model.hidden = hidden;
  model.vocab = vocab;
  model.positions = positions;
}

}  // namespace zeroplan::models
