#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// Sizes of a vision tower (CLIP, SigLIP).
struct VisionSizes {
  std::uint64_t hidden, layers, heads, ffn, image, patch, channels;
  std::uint64_t patches() const { return (image / patch) * (image / patch); }
};

VisionSizes read_vision(const HfConfig& config, const VisionSizes& defaults) {
  const VisionSizes s{.hidden = config.width({"hidden_size"}, defaults.hidden),
                      .layers = config.layers({"num_hidden_layers"}, defaults.layers),
                      .heads = config.heads({"num_attention_heads"}, defaults.heads),
                      .ffn = config.width({"intermediate_size"}, defaults.ffn),
                      .image = config.width({"image_size"}, defaults.image),
                      .patch = config.width({"patch_size"}, defaults.patch),
                      .channels = config.width({"num_channels"}, 3)};
  config.require_divides("num_attention_heads", s.heads, "hidden_size", s.hidden);
  if (s.patch > s.image) throw config.unexpected("patch_size", "at most image_size", "patches are parts of the image");
  return s;
}

/// The two towers register the first norm at different places.
Modules vision_block(const VisionSizes& s, bool is_norm_first) {
  const Modules norm = {layer_norm("layer_norm1", s.hidden)};
  return join(
      {only_if(is_norm_first, norm),
       {linear("self_attn.k_proj", s.hidden, s.hidden, true), linear("self_attn.v_proj", s.hidden, s.hidden, true),
        linear("self_attn.q_proj", s.hidden, s.hidden, true), linear("self_attn.out_proj", s.hidden, s.hidden, true)},
       only_if(!is_norm_first, norm),
       only_if(is_norm_first, {layer_norm("layer_norm2", s.hidden)}),
       {linear("mlp.fc1", s.hidden, s.ffn, true), linear("mlp.fc2", s.ffn, s.hidden, true)},
       only_if(!is_norm_first, {layer_norm("layer_norm2", s.hidden)})});
}

Modules patches(const std::string& name, const VisionSizes& s, bool bias) {
  return join({{own(name, "weight", {s.hidden, s.channels, s.patch, s.patch})},
               only_if(bias, {own(name, "bias", {s.hidden}, InitRule::kZeros)})});
}

void add_clip_tower(FamilyBuilder& builder, const std::string& root, const VisionSizes& s) {
  builder
      .unit("vision embedding", UnitKind::kEmbedding, root,
            join({{own("embeddings", "class_embedding", {s.hidden})},
                  patches("embeddings.patch_embedding", s, false),
                  {table("embeddings.position_embedding", s.patches() + 1, s.hidden),
                   layer_norm("pre_layrnorm", s.hidden)}}))
      .blocks(root + "encoder.layers", s.layers, vision_block(s, false), "vision ")
      .unit("vision norm", UnitKind::kOther, root, {layer_norm("post_layernorm", s.hidden)});
}

void add_siglip_tower(FamilyBuilder& builder, const std::string& root, const VisionSizes& s, bool has_pooling_head) {
  builder
      .unit("vision embedding", UnitKind::kEmbedding, root,
            join({patches("embeddings.patch_embedding", s, true),
                  {table("embeddings.position_embedding", s.patches(), s.hidden)}}))
      .blocks(root + "encoder.layers", s.layers, vision_block(s, true), "vision ")
      .unit("vision norm", UnitKind::kOther, root, {layer_norm("post_layernorm", s.hidden)})
      .unit(
          "vision norm", UnitKind::kOther, root,
          only_if(has_pooling_head,
                  {own("head", "probe", {1, 1, s.hidden}),
                   own("head.attention", "in_proj_weight", {3 * s.hidden, s.hidden}),
                   own("head.attention", "in_proj_bias", {3 * s.hidden}, InitRule::kZeros),
                   linear("head.attention.out_proj", s.hidden, s.hidden, true), layer_norm("head.layernorm", s.hidden),
                   linear("head.mlp.fc1", s.hidden, s.ffn, true), linear("head.mlp.fc2", s.ffn, s.hidden, true)}));
}

/// The text model, built by its own family.
Model build_text_model(const HfConfig& config, std::string_view default_type) {
  const HfConfig text = config.part("text_config");
  const std::string type = text.text({"model_type"}, default_type);
  const Family* family = find_family(type);
  if (family == nullptr) {
    throw text.unexpected("model_type", "a family of text models",
                          "give the model's .safetensors file: names and shapes are read from its header");
  }
  Model model;
  model.family = type;
  family->build(text, model);
  return model;
}

/// "model.layers.0..." is "model.language_model.layers.0..." in the whole; the head keeps its name.
std::string name_in_whole(const std::string& name) {
  constexpr std::string_view kRoot = "model.";
  return name.rfind(kRoot, 0) == 0 ? "model.language_model." + name.substr(kRoot.size()) : name;
}

void append(Model& model, Model text) {
  const std::size_t first_parameter = model.parameters.size();
  const std::size_t first_unit = model.units.size();
  for (Parameter& parameter : text.parameters) {
    parameter.name = name_in_whole(parameter.name);
    parameter.unit += first_unit;
    model.parameters.push_back(std::move(parameter));
  }
  for (TiedName& tied : text.tied) {
    model.tied.push_back({.name = name_in_whole(tied.name),
                          .parameter = tied.parameter + first_parameter,
                          .unit = tied.unit + first_unit});
  }
  for (Unit& unit : text.units) {
    for (std::size_t& parameter : unit.parameters) parameter += first_parameter;
    model.units.push_back(std::move(unit));
  }
  model.hidden = text.hidden;
  model.vocab = text.vocab;
  model.positions = text.positions;
  model.experts = text.experts;
  model.experts_per_token = text.experts_per_token;
  model.notes.insert(model.notes.end(), text.notes.begin(), text.notes.end());
}

void note_tower(Model& model) {
  model.notes.push_back("the vision tower is counted as trainable; where it is frozen, say --freeze vision_tower");
}

}  // namespace

void build_llava(const HfConfig& config, Model& model) {
  // Without a vision_config the library takes CLIP large at 336 pixels; fields absent from one have CLIP base's
  // defaults.
  const VisionSizes tower = config.has("vision_config") ? VisionSizes{768, 12, 12, 3072, 224, 32, 3}
                                                        : VisionSizes{1024, 24, 16, 4096, 336, 14, 3};
  const HfConfig vision = config.part("vision_config");
  const std::string type = vision.text({"model_type"}, "clip_vision_model");
  const bool is_siglip = type == "siglip_vision_model";
  if (type != "clip_vision_model" && !is_siglip) {
    throw vision.unexpected("model_type", "clip_vision_model or siglip_vision_model",
                            "give the model's .safetensors file: names and shapes are read from its header");
  }
  const VisionSizes s = read_vision(vision, is_siglip ? VisionSizes{768, 12, 12, 3072, 224, 16, 3} : tower);
  Model text = build_text_model(config, "llama");
  const std::uint64_t layers_read =
      config.has("vision_feature_layer") && config.view().at("vision_feature_layer").json().is_array()
          ? config.view().at("vision_feature_layer").array_size()
          : 1;
  if (layers_read == 0 || layers_read > s.layers + 1) {
    throw config.unexpected("vision_feature_layer", "one layer or a list of layers of the tower",
                            "the usual value is -2");
  }
  const bool bias = config.flag({"multimodal_projector_bias"}, true);

  FamilyBuilder builder(model, init_std(config));
  if (is_siglip) {
    add_siglip_tower(builder, "model.vision_tower.", s, vision.flag({"vision_use_head"}, true));
  } else {
    add_clip_tower(builder, "model.vision_tower.", s);
  }
  builder.unit("projector", UnitKind::kOther, "model.multi_modal_projector.",
               {linear("linear_1", s.hidden * layers_read, text.hidden, bias),
                linear("linear_2", text.hidden, text.hidden, bias)});
  append(model, std::move(text));
  note_tower(model);
}

void build_gemma3(const HfConfig& config, Model& model) {
  const HfConfig vision = config.part("vision_config");
  const VisionSizes s = read_vision(vision, {768, 12, 12, 3072, 224, 16, 3});
  Model text = build_text_model(config, "gemma3_text");
  FamilyBuilder builder(model, init_std(config));
  add_siglip_tower(builder, "model.vision_tower.", s, vision.flag({"vision_use_head"}, true));
  builder.unit("projector", UnitKind::kOther, "model.multi_modal_projector.",
               {own("", "mm_input_projection_weight", {s.hidden, text.hidden}, InitRule::kZeros),
                rms_norm_from_zero("mm_soft_emb_norm", s.hidden)});
  append(model, std::move(text));
  note_tower(model);
}

}  // namespace zeroplan::models
