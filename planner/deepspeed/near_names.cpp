#include "planner/deepspeed/near_names.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::size_t kLongestName = 80;
constexpr std::size_t kShortestPart = 6;

std::string normal(std::string_view name) {
  std::string text;
  for (const char c : name)
    text += c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Edits with swaps of neighbours (Damerau-Levenshtein, restricted).
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  if (name.empty() || name.size() > kLongestName) return "";
  const std::string wanted = normal(name);
  std::string best;
  double best_score = std::numeric_limits<double>::infinity();
  for (const std::string_view candidate : candidates) {
    const std::string known = normal(candidate);
    const std::size_t distance = edits(wanted, known);
    double score = static_cast<double>(distance);
    const std::size_t allowed = std::max<std::size_t>(wanted.size() <= 4 ? 1 : 2, wanted.size() / 5);
    if (distance > allowed) {
      const bool part = (wanted.size() >= kShortestPart && known.find(wanted) != std::string::npos) ||
                        (known.size() >= kShortestPart && wanted.find(known) != std::string::npos);
      if (!part) continue;
      score = 50 + static_cast<double>(distance);
    }
    if (score < best_score) {
      best_score = score;
      best = candidate;
    }
  }
  return best;
}

}  // namespace zeroplan::planner::deepspeed
