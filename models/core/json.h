// JSON documents as untrusted input. Purpose: read with limits on size and depth, and take values out with errors that
// name file, key, value and what was expected. Main types: Json, JsonView. Depends on models/core only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "models/core/error.h"

namespace zeroplan {

/// Keeps the order of keys, so that documents read as they were written and equal inputs give equal bytes.
using Json = nlohmann::ordered_json;

/// What a reader accepts.
struct JsonLimits {
  std::uint64_t most_bytes = std::uint64_t{64} << 20;
  int most_depth = 64;
  /// In one object: `Json` looks keys up one by one, so that an object of many keys takes quadratic time.
  std::uint64_t most_keys = 30'000;
};

/// Parses strict JSON. `file` is only named in errors.
/// \throws Error{kInvalidInput} with line and column (from 1) of what was found, for text that is no JSON, nested too
/// deeply,
///   or with a number that no double holds.
Json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

/// The same for documents whose objects have many keys: sorted by key, without the limit on their number.
nlohmann::json parse_large_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

/// Reads and parses a file. \throws Error{kIo} if it cannot be read or is larger than the limit; else as `parse_json`.
Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

/// A value inside a document, with its dotted path for errors. Does not own: the document must outlive it.
class JsonView {
 public:
  JsonView(const Json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const Json& json() const { return *value_; }
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }

  /// True if this is an object that has the key with a value other than null.
  bool has(std::string_view key) const;
  /// The member; \throws Error{kInvalidInput} if it is absent or this is no object.
  JsonView at(std::string_view key) const;
  /// The element of an array.
  JsonView at(std::size_t index) const;
  /// Elements of an array; \throws if this is no array.
  std::size_t array_size() const;

  /// A whole number in [0, 2^63); a float that is whole counts. \throws Error{kInvalidInput}.
  std::uint64_t as_count() const;
  /// A finite number.
  double as_number() const;
  bool as_bool() const;
  std::string as_string() const;
  const Json& as_object() const;

  /// Of a member: absent or null gives the default.
  std::uint64_t count_or(std::string_view key, std::uint64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool bool_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, std::string fallback) const;

  /// The error "key is VALUE, expected EXPECTED", placed here.
  [[nodiscard]] Error unexpected(std::string_view expected) const;

 private:
  const Json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace zeroplan
