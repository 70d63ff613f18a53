#include "models/tensor_model.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace zeroplan::models {
namespace {

/// "model.layers" and "7" of "model.layers.7.mlp.weight": the first part that is a number.
std::optional<std::pair<std::string, std::string>> numbered_part(const std::string& name) {
  std::size_t start = 0;
  while (start < name.size()) {
    const std::size_t end = std::min(name.find('.', start), name.size());
    const bool is_number = end > start && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(start),
                                                      name.begin() + static_cast<std::ptrdiff_t>(end),
                                                      [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number && start > 0) return std::pair(name.substr(0, start - 1), name.substr(start, end - start));
    start = end + 1;
  }
  return std::nullopt;
}

/// The method whose packed tensors have this name, empty for a plain weight.
std::string_view quantisation_of(std::string_view name, const TensorEntry& entry) {
  if (std::string_view(name).ends_with(".qweight") || std::string_view(name).ends_with(".qzeros")) return "gptq or awq";
  if (name.find(".quant_state.") != std::string_view::npos || std::string_view(name).ends_with(".absmax"))
    return "bitsandbytes";
  if (std::string_view(name).ends_with("_blocks") && entry.dtype == DType::kUint8) return "mxfp4";
  if (entry.dtype_name.rfind("F8_", 0) == 0) return "fp8";
  return "";
}

}  // namespace

Model model_of_tensors(const TensorIndex& index, const std::string& name, const std::string& source) {
  Model model;
  model.name = name;
  model.source = source;
  model.family = "unknown";
  std::map<std::string, std::size_t> units;
  std::map<std::string, Bytes> bytes_by_type;
  for (const TensorIndex::Found& found : index.all()) {
    const TensorEntry& entry = *found.entry;
    const auto part = numbered_part(entry.name);
    const std::string unit_name = part ? part->first + " block " + part->second : "outside the blocks";
    const auto [it, is_new] = units.try_emplace(unit_name, model.units.size());
    if (is_new) {
      model.units.push_back({.name = unit_name, .kind = part ? UnitKind::kBlock : UnitKind::kOther, .parameters = {}});
    }
    model.units[it->second].parameters.push_back(model.parameters.size());
    Parameter parameter;
    parameter.name = entry.name;
    parameter.shape = entry.shape;
    parameter.unit = it->second;
    model.parameters.push_back(std::move(parameter));
    if (entry.dtype) bytes_by_type[entry.dtype_name] += entry.size;
    if (model.quantisation.empty()) model.quantisation = quantisation_of(entry.name, entry);
  }
  Bytes most;
  for (const auto& [type, bytes] : bytes_by_type) {
    if (bytes > most) model.checkpoint_dtype = *parse_safetensors_dtype(type);
    most = std::max(most, bytes);
  }
  model.notes.push_back(
      "read from tensor names and shapes only: ties beyond stored names, buffers among the tensors, the sequence "
      "length and all "
      "activations are unknown");
  if (!model.quantisation.empty()) {
    model.notes.push_back("the checkpoint is quantised (" + model.quantisation +
                          "): packed tensors are counted as stored, the logical weights are more");
  }
  return model;
}

}  // namespace zeroplan::models
