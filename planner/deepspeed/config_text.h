// A ds_config.json as a person wrote it. Purpose: read JSON leniently (comments, trailing and missing commas, unquoted
// texts, duplicate keys), remember where every key and value stands, and say what strict JSON would refuse. Main types:
// TextPosition, ReaderRemark, ConfigText. Depends on models/core only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/json.h"

namespace zeroplan::planner::deepspeed {

/// Line and column, both from 1; columns count bytes.
struct TextPosition {
  std::uint64_t line = 0;
  std::uint64_t column = 0;
  friend bool operator==(const TextPosition&, const TextPosition&) = default;
};

/// What strict JSON refuses, or what a plain parser loses.
enum class RemarkKind {
  kComment,
  kTrailingComma,
  kMissingComma,
  kUnquotedKey,
  kUnquotedText,        ///< up to the end of the line
  kUnquotedTextRunsOn,  ///< more follows on the line, which Hjson takes into the text
  kSingleQuotes,
  kControlCharacter,
  kByteOrderMark,
  kRootWithoutBraces,
  kDuplicateKey,
};

struct ReaderRemark {
  RemarkKind kind = RemarkKind::kComment;
  TextPosition at;
  std::string path;        ///< dotted path of a duplicate key; otherwise empty
  TextPosition first;      ///< of a duplicate key: where it stood before
  bool same_value = true;  ///< of a duplicate key: both values are equal
};

/// Where a member stands.
struct MemberPlace {
  TextPosition key;
  TextPosition value;
};

/// A document with its places. Paths are dotted; elements of lists have no path of their own.
struct ConfigText {
  std::string file;
  Json root = Json::object();
  std::map<std::string, MemberPlace, std::less<>> places;
  std::vector<ReaderRemark> remarks;  ///< in order of the text, at most `kMostRemarks`

  static constexpr std::size_t kMostRemarks = 200;

  /// The place of a path, or of the nearest enclosing member that the text has; null at the root.
  const MemberPlace* place_of(std::string_view path) const;
  /// True if strict JSON would refuse the text.
  bool strict_json_refuses() const;
};

/// Limits of the reader: a configuration is never larger.
struct ReaderLimits {
  std::uint64_t most_bytes = std::uint64_t{1} << 20;
  int most_depth = 48;
};

/// Reads a document whose root is an object. Of duplicate keys the last value counts, as plain parsers have it.
/// Numbers beyond 64 bits become floats; a float beyond a double's range becomes infinity.
/// \throws Error{kInvalidInput} with line and column of what cannot be read.
ConfigText read_config_text(std::string_view text, std::string file, const ReaderLimits& limits = {});

}  // namespace zeroplan::planner::deepspeed
