// Hugging Face names to modules.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "simulator/profiles/eager_model.h"

namespace zeroplan::simulator {
namespace {

using Names = std::map<std::string, std::size_t, std::less<>>;

/// "model.layers.3.self_attn.q_proj.weight" -> "self_attn.q_proj.weight": what follows the first number.
std::string_view within_block(std::string_view name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return end < name.size() ? name.substr(end + 1) : std::string_view();
    }
    begin = end + 1;
  }
  return name;
}

}  // namespace

EagerModel::EagerModel(EagerTape& tape, const models::Model& model, const TrainedParameters& trained,
                       const PassSettings& settings)
    : t_(tape), model_(model), settings_(settings), tokens_(detail::checked_mul(settings.micro_batch, settings.seq)) {
  const auto style = family_style(model);
  const auto is_block = [](const models::Unit& u) { return u.kind == models::UnitKind::kBlock; };
  if (!style || std::none_of(model.units.begin(), model.units.end(), is_block)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("how the blocks of family {} compute is not known", model.family));
  }
  style_ = *style;
  rank_ = trained.rank;
  quantised_ = trained.quantised;
  const std::size_t count = model.parameters.size();
  ids_.resize(count, kNone);
  adapter_down_.resize(count, kNone);
  adapter_up_.resize(count, kNone);
  const auto add = [&](const Shape& shape, bool is_trained) {
    shapes_.push_back(shape);
    return t_.add_parameter(shape.elements().count(), settings_.parameter_dtype, is_trained);
  };
  unit_parameters_.resize(model.units.size());
  const auto own = [&](std::size_t unit, ParameterId id) {
    if (unit < unit_parameters_.size()) unit_parameters_[unit].push_back(id);
  };
  for (std::size_t i = 0; i < count; ++i) {
    ids_[i] = add(model.parameters[i].shape, trained.trained[i]);
    own(model.parameters[i].unit, ids_[i]);
  }
  for (const Adapter& a : trained.adapters) {
    adapter_down_[a.parameter] = add({a.copies, rank_, a.inputs}, true);
    adapter_up_[a.parameter] = add({a.copies, a.outputs, rank_}, true);
    own(model.parameters[a.parameter].unit, adapter_down_[a.parameter]);
    own(model.parameters[a.parameter].unit, adapter_up_[a.parameter]);
  }
  blocks_.resize(model.units.size());
  other_norms_.resize(model.units.size());
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) bind_unit(unit);
}

LinearModule EagerModel::bind_linear(const Names& names, std::initializer_list<std::string_view> candidates) const {
  for (const std::string_view candidate : candidates) {
    const auto it = names.find(std::string(candidate) + ".weight");
    if (it == names.end()) continue;
    const std::size_t index = it->second;
    const Shape& shape = model_.parameters[index].shape;
    if (shape.rank() != 2) continue;
    LinearModule m{.weight = ids_[index], .inputs = shape[1], .outputs = shape[0]};
    const bool in_by_out = model_.family == "gpt2" && model_.parameters[index].name.find(".h.") != std::string::npos;
    if (in_by_out) {
      std::swap(m.inputs, m.outputs);
      m.weight_is_transposed = false;
    }
    if (const auto bias = names.find(std::string(candidate) + ".bias"); bias != names.end())
      m.bias = ids_[bias->second];
    m.quantised = quantised_[index];
    m.adapter_down = adapter_down_[index];
    m.adapter_up = adapter_up_[index];
    m.rank = rank_;
    return m;
  }
  return {};
}

NormModule EagerModel::bind_norm(const Names& names, std::initializer_list<std::string_view> candidates) const {
  for (const std::string_view candidate : candidates) {
    const auto it = names.find(std::string(candidate) + ".weight");
    if (it == names.end()) continue;
    NormModule m{.weight = ids_[it->second]};
    if (const auto bias = names.find(std::string(candidate) + ".bias"); bias != names.end())
      m.bias = ids_[bias->second];
    return m;
  }
  return {};
}

BlockModules EagerModel::bind_block(const Names& names) const {
  const auto lin = [&](std::initializer_list<std::string_view> c) { return bind_linear(names, c); };
  const auto norm = [&](std::initializer_list<std::string_view> c) { return bind_norm(names, c); };
  BlockModules b;
  AttentionModules& a = b.attention;
  a.q =
      lin({"self_attn.q_proj", "attn.q_proj", "attention.self.query", "layer.0.SelfAttention.q", "self_attn.q_b_proj"});
  a.k = lin({"self_attn.k_proj", "attn.k_proj", "attention.self.key", "layer.0.SelfAttention.k"});
  a.v = lin(
      {"self_attn.v_proj", "attn.v_proj", "attention.self.value", "layer.0.SelfAttention.v", "self_attn.kv_b_proj"});
  a.qkv = lin({"attn.c_attn", "attention.query_key_value", "self_attention.query_key_value", "self_attn.qkv_proj"});
  a.o = lin({"self_attn.o_proj", "self_attn.out_proj", "self_attn.dense", "attn.c_proj", "attn.out_proj",
             "attention.dense", "self_attention.dense", "attention.output.dense", "layer.0.SelfAttention.o"});
  a.q_down = lin({"self_attn.q_a_proj"});
  a.kv_down = lin({"self_attn.kv_a_proj_with_mqa"});
  a.q_down_norm = norm({"self_attn.q_a_layernorm"});
  a.kv_down_norm = norm({"self_attn.kv_a_layernorm"});
  a.q_norm = norm({"self_attn.q_norm"});
  a.k_norm = norm({"self_attn.k_norm"});
  b.cross.q = lin({"layer.1.EncDecAttention.q"});
  b.cross.k = lin({"layer.1.EncDecAttention.k"});
  b.cross.v = lin({"layer.1.EncDecAttention.v"});
  b.cross.o = lin({"layer.1.EncDecAttention.o"});
  b.decoder_of_two = b.cross.present();
  b.before_cross = b.decoder_of_two ? norm({"layer.1.layer_norm"}) : NormModule{};
  if (style_.norm_after_sublayer) {
    b.after_attention = norm({"attention.output.LayerNorm"});
    b.after_mlp = norm({"output.LayerNorm"});
  } else {
    const bool four_norms = names.contains("pre_feedforward_layernorm.weight");
    const bool post_only = names.contains("post_feedforward_layernorm.weight") && !four_norms;
    b.before_attention = norm({"input_layernorm", "ln_1", "ln_attn", "self_attn_layer_norm", "layer.0.layer_norm"});
    if (four_norms || post_only) {
      b.after_attention = norm({"post_attention_layernorm"});
      b.before_mlp = norm({"pre_feedforward_layernorm"});
      b.after_mlp = norm({"post_feedforward_layernorm"});
    } else {
      b.before_mlp = norm({"post_attention_layernorm", "ln_2", "ln_mlp", "final_layer_norm"});
      if (!b.before_mlp.present())
        b.before_mlp = b.decoder_of_two ? norm({"layer.2.layer_norm"}) : norm({"layer.1.layer_norm"});
    }
  }
  b.mlp.gate = lin({"mlp.gate_proj", "layer.1.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_0"});
  b.mlp.up = lin({"mlp.up_proj", "mlp.c_fc", "mlp.dense_h_to_4h", "mlp.fc1", "mlp.fc_in", "fc1", "intermediate.dense",
                  "layer.1.DenseReluDense.wi", "layer.2.DenseReluDense.wi", "layer.1.DenseReluDense.wi_1",
                  "layer.2.DenseReluDense.wi_1"});
  b.mlp.down = lin({"mlp.down_proj", "mlp.c_proj", "mlp.dense_4h_to_h", "mlp.fc2", "mlp.fc_out", "fc2", "output.dense",
                    "layer.1.DenseReluDense.wo", "layer.2.DenseReluDense.wo"});
  b.mlp.gate_up = lin({"mlp.gate_up_proj"});
  b.router = lin({"mlp.gate", "mlp.router", "block_sparse_moe.gate"});
  for (const char* prefix : {"mlp.shared_expert", "mlp.shared_experts"}) {
    if (b.shared.down.present()) break;
    b.shared.gate = lin({std::string(prefix) + ".gate_proj"});
    b.shared.up = lin({std::string(prefix) + ".up_proj"});
    b.shared.down = lin({std::string(prefix) + ".down_proj"});
  }
  b.shared_gate = lin({"mlp.shared_expert_gate"});
  if (const auto it = names.find("mlp.experts.gate_up_proj"); it != names.end()) {
    const Shape& shape = model_.parameters[it->second].shape;
    b.experts.gate_up = ids_[it->second];
    b.experts.experts = shape[0];
    b.experts.ffn = (model_.family == "gpt_oss" ? shape[2] : shape[1]) / 2;
    b.experts.down = ids_[names.at("mlp.experts.down_proj")];
  }
  if (const auto it = names.find("layer.0.SelfAttention.relative_attention_bias.weight"); it != names.end()) {
    b.relative_bias = ids_[it->second];
  }
  const Json& config = text_config(model_);
  const std::uint64_t default_heads = model_.decoder ? model_.decoder->heads : 32;
  a.heads = config_count(config, {"num_attention_heads", "n_head", "num_heads"}, default_heads);
  const std::uint64_t q_width = a.qkv.present() ? a.o.inputs : a.q.outputs;
  a.head_size = a.value_size = std::max<std::uint64_t>(1, q_width / std::max<std::uint64_t>(1, a.heads));
  a.kv_heads = a.heads;
  if (a.qkv.present()) a.kv_heads = std::max<std::uint64_t>(1, (a.qkv.outputs - q_width) / (2 * a.head_size));
  if (a.k.present()) a.kv_heads = std::max<std::uint64_t>(1, a.k.outputs / a.head_size);
  if (a.kv_down.present()) a.value_size = std::max<std::uint64_t>(1, a.o.inputs / std::max<std::uint64_t>(1, a.heads));
  const AttentionModules sizes = a;
  b.cross.heads = b.cross.kv_heads = sizes.heads;
  b.cross.head_size = b.cross.value_size = sizes.head_size;
  return b;
}

void EagerModel::bind_unit(std::size_t unit) {
  const models::Unit& u = model_.units[unit];
  const bool vision = u.name.find("vision") != std::string::npos;
  Names names;
  for (const std::size_t index : u.parameters) {
    const std::string& name = model_.parameters[index].name;
    names.emplace(u.kind == models::UnitKind::kBlock ? std::string(within_block(name)) : name, index);
  }
  if (vision) return;  // images are outside this pass
  if (u.kind == models::UnitKind::kBlock) {
    blocks_[unit] = bind_block(names);
    const AttentionModules& a = blocks_[unit].attention;
    if (!a.present() || !(a.qkv.present() || a.v.present())) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("how {} of family {} computes is not known", u.name, model_.family));
    }
    if (rotary_size_ == 0) {
      rotary_size_ = static_cast<std::uint64_t>(static_cast<double>(a.head_size) * style_.rotary_fraction);
      if (a.kv_down.present()) rotary_size_ = config_count(text_config(model_), {"qk_rope_head_dim"}, 64);
    }
    return;
  }
  for (const auto& [name, index] : names) {
    const Shape& shape = model_.parameters[index].shape;
    const auto module = [&] { return std::string_view(name).substr(0, name.rfind('.')); };
    if (u.kind == models::UnitKind::kEmbedding) {
      if (shape.rank() == 2 && shape[0] == model_.vocab) {
        embeddings_.tables.insert(embeddings_.tables.begin(), ids_[index]);
      } else if (shape.rank() == 2) {
        embeddings_.tables.push_back(ids_[index]);
      } else if (name.ends_with(".weight")) {
        embeddings_.norm = bind_norm(names, {module()});
      }
    } else if (u.kind == models::UnitKind::kHead) {
      if (shape.rank() == 2 && shape[0] == model_.vocab) {
        head_.output = bind_linear(names, {module()});
        head_.output.weight_is_transposed = true;
      } else if (shape.rank() == 2 && name.ends_with(".weight")) {
        head_.dense = bind_linear(names, {module()});
      } else if (shape.rank() == 1 && name.ends_with(".weight")) {
        (head_.dense.present() || style_.norm_after_sublayer ? head_.dense_norm : head_.norm) =
            bind_norm(names, {module()});
      }
    } else if (shape.rank() == 1 && name.ends_with(".weight")) {
      other_norms_[unit] = bind_norm(names, {module()});
    }
  }
  if (u.kind == models::UnitKind::kHead && style_.norm_after_sublayer && head_.output.present()) {
    for (const auto& [name, index] : names) {
      if (model_.parameters[index].shape == Shape{model_.vocab}) head_.output.bias = ids_[index];
    }
  }
}

}  // namespace zeroplan::simulator
