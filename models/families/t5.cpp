#include "models/families/families.h"

namespace zeroplan::models {

namespace {

struct Sizes {
  std::uint64_t hidden, heads, head_size, ffn, buckets;
  bool is_gated;
  std::uint64_t inner() const { return heads * head_size; }
};

Modules attention(const std::string& name, const Sizes& s, bool has_relative_bias) {
  return join({{linear(name + ".q", s.hidden, s.inner()), linear(name + ".k", s.hidden, s.inner()),
                linear(name + ".v", s.hidden, s.inner()), linear(name + ".o", s.inner(), s.hidden)},
               only_if(has_relative_bias, {table(name + ".relative_attention_bias", s.buckets, s.heads)})});
}

Modules feed_forward(const std::string& layer, const Sizes& s) {
  const std::string name = layer + ".DenseReluDense.";
  return join({only_if(s.is_gated, {linear(name + "wi_0", s.hidden, s.ffn), linear(name + "wi_1", s.hidden, s.ffn)}),
               only_if(!s.is_gated, {linear(name + "wi", s.hidden, s.ffn)}),
               {linear(name + "wo", s.ffn, s.hidden), rms_norm(layer + ".layer_norm", s.hidden)}});
}

Modules encoder_block(const Sizes& s, std::uint64_t layer) {
  return join({attention("layer.0.SelfAttention", s, layer == 0),
               {rms_norm("layer.0.layer_norm", s.hidden)},
               feed_forward("layer.1", s)});
}

Modules decoder_block(const Sizes& s, std::uint64_t layer) {
  return join({attention("layer.0.SelfAttention", s, layer == 0),
               {rms_norm("layer.0.layer_norm", s.hidden)},
               attention("layer.1.EncDecAttention", s, false),
               {rms_norm("layer.1.layer_norm", s.hidden)},
               feed_forward("layer.2", s)});
}

}  // namespace

void build_t5(const HfConfig& config, Model& model) {
  const Sizes s{.hidden = config.width({"d_model", "hidden_size"}, 512),
                .heads = config.heads({"num_heads", "num_attention_heads"}, 8),
                .head_size = config.width({"d_kv"}, 64),
                .ffn = config.width({"d_ff"}, 2048),
                .buckets = config.width({"relative_attention_num_buckets"}, 32),
                .is_gated = config.text({"feed_forward_proj"}, "relu").rfind("gated", 0) == 0};
  const std::uint64_t layers = config.layers({"num_layers", "num_hidden_layers"}, 6);
  const std::uint64_t decoder_layers = config.optional_width({"num_decoder_layers"}, kMostLayers).value_or(layers);
  const std::uint64_t vocab = config.rows({"vocab_size"}, 32128);
  const std::string architecture = config.architecture();
  const bool has_decoder = architecture.find("Encoder") == std::string::npos;
  const bool has_head = has_decoder && architecture != "T5Model";

  FamilyBuilder builder(model, 1.0);
  builder.unit("embedding", UnitKind::kEmbedding, "", {table("shared", vocab, s.hidden)})
      .tie("encoder.embed_tokens.weight", "shared.weight", "embedding")
      .blocks(
          "encoder.block", layers, [&](std::uint64_t layer) { return encoder_block(s, layer); }, "encoder ")
      .unit("encoder norm", UnitKind::kOther, "encoder.", {rms_norm("final_layer_norm", s.hidden)});
  if (has_decoder) {
    // The decoder's first block comes first in use: its table of tokens is the shared one.
    builder.tie("decoder.embed_tokens.weight", "shared.weight", "embedding")
        .blocks(
            "decoder.block", decoder_layers, [&](std::uint64_t layer) { return decoder_block(s, layer); }, "decoder ")
        .unit("head", UnitKind::kHead, "decoder.", {rms_norm("final_layer_norm", s.hidden)});
  }
  if (has_head) {
    const bool tied = config.flag({"tie_word_embeddings"}, true);
    builder.head(tied, "lm_head", "shared", s.hidden, vocab);
    if (!tied) {
      model.notes.push_back(
          "tie_word_embeddings is false: the head is a matrix of its own, as in the checkpoint (transformers 5 ties "
          "it)");
    }
  }
  model.hidden = s.hidden;
  model.vocab = vocab;
  model.positions = config.count({"n_positions"}, 512);
}

}  // namespace zeroplan::models
