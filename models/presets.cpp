#include "models/presets.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace zeroplan::models {
namespace {

std::string lower(std::string_view text) {
  std::string copy(text);
  std::transform(copy.begin(), copy.end(), copy.begin(), [](unsigned char c) { return std::tolower(c); });
  return copy;
}

/// Least number of inserted, removed and changed characters (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

const Preset* find_preset(std::string_view name) {
  const std::string wanted = lower(name);
  for (const Preset& preset : presets()) {
    if (preset.name == wanted) return &preset;
  }
  return nullptr;
}

std::vector<std::string> nearest_presets(std::string_view name, std::size_t most) {
  constexpr std::size_t kLongestName = 64;  // a longer text is no misspelt name; its end would only cost time
  const std::string wanted = lower(name.substr(0, kLongestName));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const Preset& preset : presets()) ranked.emplace_back(edit_distance(wanted, preset.name), preset.name);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i) names.push_back(ranked[i].second);
  return names;
}

}  // namespace zeroplan::models
