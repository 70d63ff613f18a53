#include "models/family_builder.h"

#include <algorithm>

namespace zeroplan::models {

Module Module::as_expert() const {
  Module copy = *this;
  copy.is_expert = true;
  return copy;
}

Module Module::frozen() const {
  Module copy = *this;
  copy.trainable = false;
  return copy;
}

Module Module::scaled(double std_scale) const {
  Module copy = *this;
  copy.parameters.at(0).std_scale = std_scale;
  return copy;
}

Module linear(std::string name, std::uint64_t in, std::uint64_t out, bool bias) {
  Module module{.name = std::move(name), .parameters = {{.name = "weight", .shape = {out, in}}}};
  if (bias) module.parameters.push_back({.name = "bias", .shape = {out}, .init = InitRule::kZeros});
  return module;
}

Module linear_in_by_out(std::string name, std::uint64_t in, std::uint64_t out) {
  return {.name = std::move(name),
          .parameters = {{.name = "weight", .shape = {in, out}},
                         {.name = "bias", .shape = {out}, .init = InitRule::kZeros}}};
}

Module table(std::string name, std::uint64_t rows, std::uint64_t width) {
  return linear(std::move(name), width, rows);
}

Module layer_norm(std::string name, std::uint64_t width, bool bias) {
  Module module = rms_norm(std::move(name), width);
  if (bias) module.parameters.push_back({.name = "bias", .shape = {width}, .init = InitRule::kZeros});
  return module;
}

Module rms_norm(std::string name, std::uint64_t width) {
  return own(std::move(name), "weight", {width}, InitRule::kOnes);
}

Module rms_norm_from_zero(std::string name, std::uint64_t width) {
  return own(std::move(name), "weight", {width}, InitRule::kZeros);
}

Module own(std::string name, std::string parameter, Shape shape, InitRule init) {
  return {.name = std::move(name),
          .parameters = {{.name = std::move(parameter), .shape = std::move(shape), .init = init}}};
}

Module fused_experts(std::string name, std::uint64_t experts, std::uint64_t hidden, std::uint64_t ffn) {
  return {.name = std::move(name),
          .parameters = {{.name = "gate_up_proj", .shape = {experts, 2 * ffn, hidden}},
                         {.name = "down_proj", .shape = {experts, hidden, ffn}}},
          .is_expert = true};
}

Modules join(std::initializer_list<Modules> tables) {
  Modules all;
  for (const Modules& part : tables) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Modules only_if(bool condition, Modules table) {
  return condition ? std::move(table) : Modules{};
}

std::size_t FamilyBuilder::unit_index(const std::string& name, UnitKind kind) {
  const auto [it, is_new] = units_.try_emplace(name, model_.units.size());
  if (is_new) model_.units.push_back({.name = name, .kind = kind, .parameters = {}});
  return it->second;
}

FamilyBuilder& FamilyBuilder::unit(const std::string& name, UnitKind kind, const std::string& prefix,
                                   const Modules& modules) {
  const std::size_t index = unit_index(name, kind);
  for (const Module& module : modules) {
    const std::string path = module.name.empty() ? prefix : prefix + module.name + ".";
    for (const OwnParameter& from : module.parameters) {
      Parameter to;
      to.name = path + from.name;
      to.shape = from.shape;
      to.trainable = module.trainable;
      to.is_expert = module.is_expert;
      to.init = from.init;
      to.init_std = init_std_ * from.std_scale;
      to.unit = index;
      from.shape.elements();  // throws where the product does not fit 64 bits
      const bool is_new = parameters_.emplace(to.name, model_.parameters.size()).second;
      ZP_CHECK(is_new);
      model_.units[index].parameters.push_back(model_.parameters.size());
      model_.parameters.push_back(std::move(to));
    }
  }
  return *this;
}

FamilyBuilder& FamilyBuilder::blocks(const std::string& prefix, std::uint64_t count, const Modules& modules,
                                     const std::string& stack) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    unit(stack + "block " + number, UnitKind::kBlock, prefix + "." + number + ".", modules);
  }
  return *this;
}

FamilyBuilder& FamilyBuilder::blocks(const std::string& prefix, std::uint64_t count,
                                     const std::function<Modules(std::uint64_t)>& modules_of_layer,
                                     const std::string& stack) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    unit(stack + "block " + number, UnitKind::kBlock, prefix + "." + number + ".", modules_of_layer(i));
  }
  return *this;
}

FamilyBuilder& FamilyBuilder::tie(const std::string& name, const std::string& original, const std::string& unit) {
  const auto it = parameters_.find(original);
  ZP_CHECK(it != parameters_.end());
  const std::size_t index = unit_index(unit, UnitKind::kHead);
  model_.tied.push_back({.name = name, .parameter = it->second, .unit = index});
  std::vector<std::size_t>& used = model_.units[index].parameters;
  if (std::find(used.begin(), used.end(), it->second) == used.end()) used.push_back(it->second);
  return *this;
}

FamilyBuilder& FamilyBuilder::head(bool tied, const std::string& module, const std::string& embedding,
                                   std::uint64_t hidden, std::uint64_t vocab, bool bias) {
  if (tied) {
    if (bias) unit("head", UnitKind::kHead, "", {own(module, "bias", {vocab}, InitRule::kZeros)});
    return tie(module + ".weight", embedding + ".weight", "head");
  }
  return unit("head", UnitKind::kHead, "", {linear(module, hidden, vocab, bias)});
}

}  // namespace zeroplan::models
