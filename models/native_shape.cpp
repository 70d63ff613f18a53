#include <fmt/format.h>

#include "models/family.h"
#include "models/rope.h"

namespace zeroplan::models {
namespace {

/// Layers of which at least one looks back over a window only.
bool has_sliding_layer(const HfConfig& config) {
  if (!config.has("layer_types")) return true;
  const JsonView types = config.view().at("layer_types");
  for (std::size_t i = 0; i < types.array_size(); ++i) {
    if (types.at(i).as_string() == "sliding_attention") return true;
  }
  return false;
}

}  // namespace

DecoderShape llama_like_shape(const HfConfig& config, const DecoderSizes& sizes, Model& model) {
  DecoderShape shape;
  shape.hidden = sizes.hidden;
  shape.layers = sizes.layers;
  shape.heads = sizes.heads;
  shape.kv_heads = sizes.kv_heads;
  shape.head_size = sizes.head_size;
  shape.ffn = sizes.ffn;
  shape.vocab = sizes.vocab;
  shape.positions = sizes.positions;
  shape.norm = NormKind::kRmsNorm;
  shape.mlp = MlpKind::kGatedSilu;
  shape.norm_epsilon = config.number({"rms_norm_eps"}, 1e-6);
  if (shape.norm_epsilon < 0) throw config.unexpected("rms_norm_eps", "not negative", "the usual value is 1e-6");
  const RopeSettings rope = read_rope(config);
  shape.rope_theta = rope.theta;
  shape.rope_scaling = rope.scaling;
  if (!is_rope_known(rope.type)) {
    add_obstacle(config, model, config.has("rope_parameters") ? "rope_parameters" : "rope_scaling",
                 "computes the types default, linear and llama3");
  }
  if (rope.partial_factor != 1) {
    add_obstacle(config, model, config.has("rope_parameters") ? "rope_parameters" : "partial_rotary_factor",
                 "rotates whole heads only");
  }
  if (sizes.head_size % 2 != 0) {
    throw config.unexpected(config.has("head_dim") ? "head_dim" : "hidden_size",
                            fmt::format("heads of an even size for rotary positions, found {}", sizes.head_size),
                            "choose sizes whose heads are even");
  }
  const std::string activation = config.text({"hidden_act"}, "silu");
  if (activation != "silu" && activation != "swish") {
    add_obstacle(config, model, "hidden_act", "computes silu in this family");
  }
  if (config.flag({"use_sliding_window"}, model.family == "mistral") && has_sliding_layer(config)) {
    // Mistral's class default is a window of 4096; an explicit null means none.
    shape.sliding_window = config.is_null("sliding_window") ? 0 : config.count({"sliding_window"}, 4096);
  }
  if (config.has("pretraining_tp") && config.count({"pretraining_tp"}, 1) > 1) {
    model.notes.push_back("pretraining_tp changes the order of summation only; it is not reproduced");
  }
  return shape;
}

}  // namespace zeroplan::models
