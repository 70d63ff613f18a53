#include "planner/deepspeed/config_tree.h"

#include <fmt/format.h>

namespace zeroplan::planner::deepspeed {
namespace {

std::pair<std::string_view, std::string_view> split_leaf(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {std::string_view(), path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

const Json* find_from(const Json& root, std::string_view path) {
  const Json* node = &root;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    if (!node->is_object()) return nullptr;
    const auto it = node->find(name);
    if (it == node->end()) return nullptr;
    node = &*it;
  }
  return node;
}

}  // namespace

bool is_truthy(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

bool python_equal(const Json& a, const Json& b) {
  const auto number = [](const Json& v) { return v.is_boolean() ? (v.get<bool>() ? 1.0 : 0.0) : v.get<double>(); };
  const auto is_number = [](const Json& v) { return v.is_number() || v.is_boolean(); };
  if (is_number(a) && is_number(b)) {
    if (a.is_number_integer() && b.is_number_integer()) return a == b;
    return number(a) == number(b);
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!python_equal(a[i], b[i])) return false;
    }
    return true;
  }
  return a == b;
}

const Json* ConfigTree::find(std::string_view path) const {
  return find_from(root_, path);
}

Json* ConfigTree::find_mutable(std::string_view path) {
  return const_cast<Json*>(find_from(root_, path));
}

Json ConfigTree::value_or(std::string_view path, const Json& fallback) const {
  const Json* value = find(path);
  return value == nullptr ? fallback : *value;
}

bool ConfigTree::is_true(std::string_view path) const {
  const Json* value = find(path);
  return value != nullptr && is_truthy(*value);
}

bool ConfigTree::is_false(std::string_view path) const {
  const Json* value = find(path);
  return value != nullptr && !value->is_null() && !is_truthy(*value);
}

bool ConfigTree::is_auto(std::string_view path) const {
  const Json* value = find(path);
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == "auto";
}

double ConfigTree::stage() const {
  const Json* value = find("zero_optimization.stage");
  if (value == nullptr) return -1;
  if (value->is_boolean()) return value->get<bool>() ? 1 : 0;
  return value->is_number() ? value->get<double>() : -1;
}

bool ConfigTree::is_offload() const {
  if (!is_zero2() && !is_zero3()) return false;
  for (const char* path : {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"}) {
    const Json* device = find(path);
    if (device != nullptr && (*device == "cpu" || *device == "nvme")) return true;
  }
  return false;
}

void ConfigTree::remove_sub_tree(std::string_view path, bool must_exist) {
  const auto [parent_path, name] = split_leaf(path);
  Json* parent = find_mutable(parent_path);
  const bool exists = parent != nullptr && parent->is_object() && parent->contains(name);
  if (exists) {
    parent->erase(std::string(name));
  } else if (must_exist) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the configuration lacks {}, which must exist to be removed", path))
        .at({.key = std::string(path)});
  }
}

bool ConfigTree::set(std::string_view path, Json value, bool only_existing_parent) {
  const auto [parent_path, name] = split_leaf(path);
  Json* parent = find_mutable(parent_path);
  if (parent == nullptr) {
    if (only_existing_parent || !set(parent_path, Json::object(), false)) return false;
    parent = find_mutable(parent_path);
  }
  if (parent == nullptr || !parent->is_object()) return false;
  (*parent)[std::string(name)] = std::move(value);
  return true;
}

}  // namespace zeroplan::planner::deepspeed
