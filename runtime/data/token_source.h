// Where tokens come from. Purpose: token files, text as bytes, and random tokens behind one interface, checked before
// the first step. Main types: TokenSource. Must not depend on planner.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "models/core/units.h"

namespace zeroplan::runtime {

/// A long row of tokens. Calls are safe from several threads and allocate nothing.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::uint64_t tokens() const = 0;
  /// Tokens [first, first + target.size()).
  virtual void read(std::uint64_t first, std::span<std::int32_t> target) const = 0;
  /// What is to be predicted there: the tokens themselves, or a label file's values (-100 = not counted).
  virtual void read_labels(std::uint64_t first, std::span<std::int32_t> target) const { read(first, target); }
  /// True if every label counts.
  virtual bool counts_all() const { return true; }
};

struct DataFlags {
  std::string data;                   ///< a .bin file, a text file or folder, or "random"
  std::optional<std::string> labels;  ///< of a .bin file
  std::uint64_t vocabulary = 0;
  std::uint64_t seed = 0;
};

/// \throws Error{kIo} for what cannot be read; Error{kInvalidInput} for an empty file, a size that is no whole number
/// of tokens, an id or label beyond the vocabulary, labels that are not one a token; Error{kUsage} for text with a
/// vocabulary below 256
std::unique_ptr<TokenSource> open_tokens(const DataFlags& flags);

}  // namespace zeroplan::runtime
