#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// The key projection has no bias.
Modules whisper_attention(const std::string& name, std::uint64_t hidden) {
  return {linear(name + ".k_proj", hidden, hidden), linear(name + ".v_proj", hidden, hidden, true),
          linear(name + ".q_proj", hidden, hidden, true), linear(name + ".out_proj", hidden, hidden, true),
          layer_norm(name + "_layer_norm", hidden)};
}

Modules whisper_feed_forward(std::uint64_t hidden, std::uint64_t ffn) {
  return {linear("fc1", hidden, ffn, true), linear("fc2", ffn, hidden, true), layer_norm("final_layer_norm", hidden)};
}

Module convolution(const std::string& name, std::uint64_t in, std::uint64_t out) {
  constexpr std::uint64_t kWidth = 3;
  return {.name = name,
          .parameters = {{.name = "weight", .shape = {out, in, kWidth}},
                         {.name = "bias", .shape = {out}, .init = InitRule::kZeros}}};
}

}  // namespace

void build_whisper(const HfConfig& config, Model& model) {
  const std::uint64_t hidden = config.width({"d_model", "hidden_size"}, 384);
  const std::uint64_t mel_bins = config.width({"num_mel_bins"}, 80);
  const std::uint64_t vocab = config.rows({"vocab_size"}, 51865);
  const std::uint64_t positions = config.rows({"max_target_positions"}, 448);
  const std::uint64_t encoder_heads = config.heads({"encoder_attention_heads"}, 6);
  const std::uint64_t decoder_heads = config.heads({"decoder_attention_heads"}, 6);
  config.require_divides("encoder_attention_heads", encoder_heads, "d_model", hidden);
  config.require_divides("decoder_attention_heads", decoder_heads, "d_model", hidden);
  const bool is_bare = config.architecture() == "WhisperModel";
  const std::string root = is_bare ? "" : "model.";

  FamilyBuilder builder(model, init_std(config));
  builder
      .unit("encoder embedding", UnitKind::kEmbedding, root + "encoder.",
            {convolution("conv1", mel_bins, hidden), convolution("conv2", hidden, hidden),
             // Sinusoids: the library never trains them.
             table("embed_positions", config.rows({"max_source_positions"}, 1500), hidden).frozen()})
      .blocks(root + "encoder.layers", config.layers({"encoder_layers"}, 4),
              join({whisper_attention("self_attn", hidden),
                    whisper_feed_forward(hidden, config.width({"encoder_ffn_dim"}, 1536))}),
              "encoder ")
      .unit("encoder norm", UnitKind::kOther, root + "encoder.", {layer_norm("layer_norm", hidden)})
      .unit("decoder embedding", UnitKind::kEmbedding, root + "decoder.",
            {table("embed_tokens", vocab, hidden), table("embed_positions", positions, hidden)})
      .blocks(root + "decoder.layers", config.layers({"decoder_layers"}, 4),
              join({whisper_attention("self_attn", hidden), whisper_attention("encoder_attn", hidden),
                    whisper_feed_forward(hidden, config.width({"decoder_ffn_dim"}, 1536))}),
              "decoder ")
      .unit("head", UnitKind::kHead, root + "decoder.", {layer_norm("layer_norm", hidden)});
  if (!is_bare) {
    builder.head(config.flag({"tie_word_embeddings"}, true), "proj_out", root + "decoder.embed_tokens", hidden, vocab);
  }
  model.hidden = hidden;
  model.vocab = vocab;
  model.positions = positions;
}

}  // namespace zeroplan::models
