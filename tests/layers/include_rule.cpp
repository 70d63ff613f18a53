#include "tests/layers/include_rule.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace zeroplan::layers {
namespace {

/// A folder of the program and the folders (or parts of them) whose headers its files may include besides their own.
struct Layer {
  std::string_view folder;
  std::vector<std::string_view> may_include;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> kLayers{
      {"models/", {}},
      {"kernels/", {"models/core/"}},
      {"planner/", {"models/"}},
      {"simulator/", {"planner/", "models/"}},
      {"runtime/", {"planner/", "models/", "kernels/"}},
      {"reports/", {"simulator/", "runtime/", "planner/", "models/"}},
      {"cli/", {"reports/", "simulator/", "runtime/", "planner/", "models/", "kernels/"}},
  };
  return kLayers;
}

std::string_view skip_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

}  // namespace

std::vector<Include> quoted_includes(std::string_view text) {
  std::vector<Include> includes;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view rest = skip_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!rest.starts_with('#')) continue;
    rest = skip_blanks(rest.substr(1));
    if (!rest.starts_with("include")) continue;
    rest = skip_blanks(rest.substr(std::string_view("include").size()));
    if (!rest.starts_with('"')) continue;
    rest = rest.substr(0, rest.find('"', 1));
    // Highway's own headers are written in quotes, as its documentation does.
    if (rest.substr(1).starts_with("hwy/")) continue;
    includes.push_back({std::string(rest.substr(1)), line});
  }
  return includes;
}

std::optional<std::string> violation(std::string_view file, std::string_view included) {
  const auto is_below = [](std::string_view path, std::string_view folder) { return path.starts_with(folder); };
  const auto layer =
      std::find_if(layers().begin(), layers().end(), [&](const Layer& l) { return is_below(file, l.folder); });
  if (layer == layers().end()) return "not a file of a known folder";
  if (is_below(included, layer->folder)) return std::nullopt;
  for (const std::string_view allowed : layer->may_include) {
    if (is_below(included, allowed)) return std::nullopt;
  }
  std::string expected(layer->folder);
  for (const std::string_view allowed : layer->may_include) expected.append(", ").append(allowed);
  return std::string(included) + " is none of what " + std::string(layer->folder) + " may include: " + expected;
}

}  // namespace zeroplan::layers
