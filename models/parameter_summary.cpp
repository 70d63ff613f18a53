#include "models/parameter_summary.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::models {
namespace {

/// Sums by module; the first module in the order of parameters wins where two are equally large.
class ModuleSums {
 public:
  void add(const std::string& parameter_name, Elements elements) {
    const std::string module = parameter_name.substr(0, parameter_name.rfind('.'));
    const auto [it, is_new] = index_.try_emplace(module, sums_.size());
    if (is_new) sums_.emplace_back(module, Elements());
    sums_[it->second].second += elements;
  }
  std::pair<std::string, Elements> largest() const {
    std::pair<std::string, Elements> best;
    for (const auto& sum : sums_) {
      if (sum.second > best.second) best = sum;
    }
    return best;
  }

 private:
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::pair<std::string, Elements>> sums_;
};

/// True if the parts of the pattern match some parts in a row of the name.
bool has_part(const std::vector<std::string>& name, const std::vector<std::string>& pattern) {
  for (std::size_t start = 0; start + pattern.size() <= name.size(); ++start) {
    bool is_match = true;
    for (std::size_t i = 0; i < pattern.size() && is_match; ++i) is_match = matches_glob(pattern[i], name[start + i]);
    if (is_match) return true;
  }
  return false;
}

}  // namespace

ParameterSummary summarise(const Model& model) {
  ParameterSummary summary{.total = model.total(),
                           .trainable = model.trainable(),
                           .with_tied_twice = model.with_tied_twice(),
                           .active = model.active(),
                           .largest_module = Elements(),
                           .largest_module_name = "",
                           .tensor_count = model.parameters.size()};
  ModuleSums sums;
  for (const Parameter& parameter : model.parameters) sums.add(parameter.name, parameter.shape.elements());
  for (const TiedName& tied : model.tied) sums.add(tied.name, model.parameters.at(tied.parameter).shape.elements());
  std::tie(summary.largest_module_name, summary.largest_module) = sums.largest();
  return summary;
}

void freeze(Model& model, std::span<const std::string> patterns) {
  std::vector<std::vector<std::string>> names;
  for (const Parameter& parameter : model.parameters) names.push_back(split(parameter.name, '.'));
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> parts = split(pattern, '.');
    bool is_used = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (parts.empty() || !(pattern == "*" || has_part(names[i], parts))) continue;
      model.parameters[i].trainable = false;
      is_used = true;
    }
    if (!is_used) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("--freeze {}: no parameter of {} has such a part in its name", pattern, model.name))
          .at({.key = "--freeze", .value = pattern})
          .hint("estimate --tensors lists all names");
    }
  }
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // where to resume when a later character does not match
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace zeroplan::models
