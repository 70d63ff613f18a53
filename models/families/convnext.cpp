#include "models/families/families.h"

namespace zeroplan::models {

namespace {

std::vector<std::uint64_t> numbers_or(const HfConfig& config, std::string_view key,
                                      std::vector<std::uint64_t> fallback) {
  return config.has(key) ? config.numbers(key) : std::move(fallback);
}

Modules block(std::uint64_t width, bool has_scale) {
  return join({only_if(has_scale, {own("", "layer_scale_parameter", {width}, InitRule::kOnes)}),
               {own("dwconv", "weight", {width, 1, 7, 7}), own("dwconv", "bias", {width}, InitRule::kZeros),
                layer_norm("layernorm", width), linear("pwconv1", width, 4 * width, true),
                linear("pwconv2", 4 * width, width, true)}});
}

}  // namespace

void build_convnext(const HfConfig& config, Model& model) {
  const std::uint64_t channels = config.width({"num_channels"}, 3);
  const std::uint64_t patch = config.width({"patch_size"}, 4);
  const std::vector<std::uint64_t> widths = numbers_or(config, "hidden_sizes", {96, 192, 384, 768});
  const std::vector<std::uint64_t> depths = numbers_or(config, "depths", {3, 3, 9, 3});
  const bool has_scale = config.number({"layer_scale_init_value"}, 1e-6) > 0;
  const EncoderHead head = read_encoder_head(config, model);
  const std::string root = head == EncoderHead::kBare ? "" : "convnext.";
  if (widths.empty() || widths.size() != depths.size()) {
    throw config.unexpected("hidden_sizes", "as many widths as depths, at least one", "one entry for each stage");
  }
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == 0 || widths[i] > kMostWidth) {
      throw config.unexpected("hidden_sizes", "widths from 1 to 16777216", "compare it with the published config");
    }
    if (depths[i] > kMostLayers / widths.size()) {
      throw config.unexpected("depths", "at most 10000 layers in all", "compare it with the published config");
    }
  }

  FamilyBuilder builder(model, init_std(config));
  builder.unit("embedding", UnitKind::kEmbedding, root + "embeddings.",
               {own("patch_embeddings", "weight", {widths[0], channels, patch, patch}),
                own("patch_embeddings", "bias", {widths[0]}, InitRule::kZeros), layer_norm("layernorm", widths[0])});
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string number = std::to_string(i);
    const std::string stage = root + "encoder.stages." + number + ".";
    if (i > 0) {
      builder.unit("stage " + number + " downsampling", UnitKind::kOther, stage,
                   {layer_norm("downsampling_layer.0", widths[i - 1]),
                    own("downsampling_layer.1", "weight", {widths[i], widths[i - 1], 2, 2}),
                    own("downsampling_layer.1", "bias", {widths[i]}, InitRule::kZeros)});
    }
    builder.blocks(stage + "layers", depths[i], block(widths[i], has_scale), "stage " + number + " ");
  }
  builder.unit("head", UnitKind::kHead, root, {layer_norm("layernorm", widths.back())});
  if (head == EncoderHead::kSequenceClassification) {
    builder.unit("head", UnitKind::kHead, "", {linear("classifier", widths.back(), read_labels(config), true)});
  }
  model.hidden = widths.back();
}

}  // namespace zeroplan::models
