// What transformers' config class answers about a ds_config, as a library: dotted lookup, truth tests, stage and
// offload tests, removal of a sub-tree. Main type: ConfigTree. Depends on models/core only.
#pragma once

#include <string>
#include <string_view>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

/// True for what Python counts as true: not null, false, 0, "" or an empty container. So the text "false" is true.
bool is_truthy(const Json& value);

/// Equality as Python has it: 1 == 1.0 == true, texts equal texts only, lists element by element.
bool python_equal(const Json& a, const Json& b);

/// A configuration. Owns the document. Paths are dotted: "zero_optimization.offload_param.device".
class ConfigTree {
 public:
  ConfigTree() : root_(Json::object()) {}
  explicit ConfigTree(Json root) : root_(std::move(root)) {}

  const Json& root() const { return root_; }

  /// The value, also null; no value (nullptr) if it or a parent is absent or a parent is no object.
  const Json* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }
  /// The value, or the default where the path is absent. A null that is written stays null.
  Json value_or(std::string_view path, const Json& fallback) const;

  /// Truth of a value; absent or null is neither true nor false.
  bool is_true(std::string_view path) const;
  bool is_false(std::string_view path) const;
  /// The text "auto", exactly.
  bool is_auto(std::string_view path) const;

  /// zero_optimization.stage, -1 if it is absent or no number.
  double stage() const;
  bool is_zero2() const { return stage() == 2; }
  bool is_zero3() const { return stage() == 3; }
  /// At stage 2 or 3 with either offload device cpu or nvme.
  bool is_offload() const;

  /// Removes a member with all below it. \throws Error{kInvalidInput} if it is absent and must exist.
  void remove_sub_tree(std::string_view path, bool must_exist = false);

  /// Sets a member; creates the sections that lead to it unless `only_existing_parent`. Returns false if a parent is
  /// absent then, or is no object.
  bool set(std::string_view path, Json value, bool only_existing_parent = true);

 private:
  Json* find_mutable(std::string_view path);

  Json root_;
};

}  // namespace zeroplan::planner::deepspeed
