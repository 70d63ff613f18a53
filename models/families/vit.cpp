#include "models/families/families.h"

namespace zeroplan::models {

void build_vit(const HfConfig& config, Model& model) {
  const DecoderSizes s =
      read_decoder_sizes(config, {.hidden = 768, .layers = 12, .heads = 12, .ffn = 3072, .vocab = 1, .positions = 1});
  const std::uint64_t patch = config.width({"patch_size"}, 16);
  const std::uint64_t image = config.width({"image_size"}, 224);
  const std::uint64_t channels = config.width({"num_channels"}, 3);
  const bool bias = config.flag({"qkv_bias"}, true);
  const EncoderHead head = read_encoder_head(config, model);
  const std::string root = head == EncoderHead::kBare ? "" : "vit.";
  if (patch > image) throw config.unexpected("patch_size", "at most image_size", "patches are parts of the image");
  const std::uint64_t positions = (image / patch) * (image / patch) + 1;  // the patches and the class token

  FamilyBuilder builder(model, init_std(config));
  builder
      .unit("embedding", UnitKind::kEmbedding, root + "embeddings.",
            {own("", "cls_token", {1, 1, s.hidden}), own("", "position_embeddings", {1, positions, s.hidden}),
             own("patch_embeddings.projection", "weight", {s.hidden, channels, patch, patch}),
             own("patch_embeddings.projection", "bias", {s.hidden}, InitRule::kZeros)})
      .blocks(
          root + "layers", s.layers,
          {linear("attention.q_proj", s.hidden, s.hidden, bias), linear("attention.k_proj", s.hidden, s.hidden, bias),
           linear("attention.v_proj", s.hidden, s.hidden, bias), linear("attention.o_proj", s.hidden, s.hidden, true),
           layer_norm("layernorm_before", s.hidden), layer_norm("layernorm_after", s.hidden),
           linear("mlp.fc1", s.hidden, s.ffn, true), linear("mlp.fc2", s.ffn, s.hidden, true)})
      .unit("head", UnitKind::kHead, root, {layer_norm("layernorm", s.hidden)});
  if (head == EncoderHead::kSequenceClassification) {
    builder.unit("head", UnitKind::kHead, "", {linear("classifier", s.hidden, read_labels(config), true)});
  } else {
    builder.unit("head", UnitKind::kHead, root, {linear("pooler.dense", s.hidden, s.hidden, true)});
  }
  model.hidden = s.hidden;
  model.positions = positions;
}

}  // namespace zeroplan::models
