// Building blocks with which a family is written down as a table. Purpose: modules with the names and shapes that
// Hugging Face gives them, put together to units in the order of named_parameters(). Main types: Module, FamilyBuilder.
// Must not depend on a family.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/hf_config.h"
#include "models/model.h"

namespace zeroplan::models {

/// A parameter of a module, named within it.
struct OwnParameter {
  std::string name;
  Shape shape;
  InitRule init = InitRule::kNormal;
  double std_scale = 1;  ///< multiplies the model's initializer_range
};

/// A module that owns parameters; an empty name is the unit's own module.
struct Module {
  std::string name;
  std::vector<OwnParameter> parameters;
  bool is_expert = false;
  bool trainable = true;

  /// Copies with one property changed, for use inside a table.
  Module as_expert() const;
  Module frozen() const;
  Module scaled(double std_scale) const;  ///< of the matrix
};

using Modules = std::vector<Module>;

/// weight [out, in], and a bias of zeros.
Module linear(std::string name, std::uint64_t in, std::uint64_t out, bool bias = false);
/// GPT-2's matrix: weight [in, out] and a bias.
Module linear_in_by_out(std::string name, std::uint64_t in, std::uint64_t out);
/// weight [rows, width].
Module table(std::string name, std::uint64_t rows, std::uint64_t width);
/// weight of ones and bias of zeros, `width` each.
Module layer_norm(std::string name, std::uint64_t width, bool bias = true);
/// weight of ones.
Module rms_norm(std::string name, std::uint64_t width);
/// A weight of zeros to which the library adds one (gemma).
Module rms_norm_from_zero(std::string name, std::uint64_t width);
/// A bare parameter of module `name`.
Module own(std::string name, std::string parameter, Shape shape, InitRule init = InitRule::kNormal);
/// The routed experts of a layer as two tensors: gate_up_proj [experts, 2 ffn, hidden] and down_proj [experts, hidden,
/// ffn].
Module fused_experts(std::string name, std::uint64_t experts, std::uint64_t hidden, std::uint64_t ffn);

/// All tables, one after another.
Modules join(std::initializer_list<Modules> tables);
/// The table if the condition holds, else nothing.
Modules only_if(bool condition, Modules table);

/// Adds units and parameters to a model.
class FamilyBuilder {
 public:
  /// \param init_std  standard deviation of random weights, the config's initializer_range.
  FamilyBuilder(Model& model, double init_std) : model_(model), init_std_(init_std) {}

  /// Adds the modules, their names behind `prefix` (with its dot, or empty), to a unit. A unit that exists already is
  /// continued, so that the order of units (of the forward pass) may differ from the order of parameters.
  FamilyBuilder& unit(const std::string& name, UnitKind kind, const std::string& prefix, const Modules& modules);
  /// Units "block 0", ... with names behind "PREFIX.0.", ...; `stack` is put in front: "encoder " gives "encoder block
  /// 0".
  FamilyBuilder& blocks(const std::string& prefix, std::uint64_t count, const Modules& modules,
                        const std::string& stack = "");
  /// The same where layers differ.
  FamilyBuilder& blocks(const std::string& prefix, std::uint64_t count,
                        const std::function<Modules(std::uint64_t)>& modules_of_layer, const std::string& stack = "");
  /// Gives the parameter `original` a second name, used by `unit`. \throws Error{kInternal} if it does not exist.
  FamilyBuilder& tie(const std::string& name, const std::string& original, const std::string& unit);
  /// An untied head matrix, or the tie with the table of the embedding.
  FamilyBuilder& head(bool tied, const std::string& module, const std::string& embedding, std::uint64_t hidden,
                      std::uint64_t vocab, bool bias = false);

 private:
  std::size_t unit_index(const std::string& name, UnitKind kind);

  Model& model_;
  double init_std_;
  std::unordered_map<std::string, std::size_t> units_;
  std::unordered_map<std::string, std::size_t> parameters_;
};

}  // namespace zeroplan::models
