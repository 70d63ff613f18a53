#pragma once
// The layer rule: models -> planner -> {simulator, runtime} -> reports -> cli; kernels knows models/core alone and only
// the runtime and what stands above it know kernels. This folder reads #include lines and depends on nothing of the
// program.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroplan::layers {

/// One quoted include of a source file.
struct Include {
  std::string path;  ///< as written, from the repository root
  int line = 0;      ///< counted from 1
};

/// All quoted includes of a source text, in order; includes in angle brackets belong to other projects.
std::vector<Include> quoted_includes(std::string_view text);

/// Why `file` may not include `included` (both from the repository root), or nothing if it may.
std::optional<std::string> violation(std::string_view file, std::string_view included);

}  // namespace zeroplan::layers
