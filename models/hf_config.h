// A Hugging Face config.json as untrusted input. Purpose: typed values under any of their spellings, the architecture's
// default where a key is absent (recorded, so that it can be told), and limits that make every later product safe. Main
// type: HfConfig. Must not depend on the families.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/json.h"

namespace zeroplan::models {

/// Limits of what a config may state; far above any real model, and low enough that no tensor count runs away.
inline constexpr std::uint64_t kMostWidth = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMostLayers = 10'000;
inline constexpr std::uint64_t kMostHeads = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMostRows = std::uint64_t{1} << 32;  ///< vocabularies and positions

/// Reads one object of a config: the document itself or a part such as `text_config`. Copies share the record of
/// defaults. All readers throw Error{kInvalidInput} with file, key, value, what was expected and what to do.
class HfConfig {
 public:
  /// Spellings of one field; the first that is present and not null counts. Two that disagree are an error.
  using Keys = std::initializer_list<std::string_view>;

  explicit HfConfig(JsonView view);

  const JsonView& view() const { return view_; }
  bool has(std::string_view key) const { return view_.has(key); }

  /// True where the key is there with the value null: an absent key means its default, null often means "none".
  bool is_null(std::string_view key) const;

  /// A whole number in [1, most].
  std::uint64_t width(Keys keys, std::uint64_t fallback, std::uint64_t most = kMostWidth) const;
  std::uint64_t layers(Keys keys, std::uint64_t fallback) const { return width(keys, fallback, kMostLayers); }
  std::uint64_t heads(Keys keys, std::uint64_t fallback) const { return width(keys, fallback, kMostHeads); }
  std::uint64_t rows(Keys keys, std::uint64_t fallback) const { return width(keys, fallback, kMostRows); }
  /// A whole number in [0, most].
  std::uint64_t count(Keys keys, std::uint64_t fallback, std::uint64_t most = kMostRows) const;
  /// A whole number in [1, most] without a sensible default: none if absent or null.
  std::optional<std::uint64_t> optional_width(Keys keys, std::uint64_t most = kMostWidth) const;
  double number(Keys keys, double fallback) const;
  bool flag(Keys keys, bool fallback) const;
  std::string text(Keys keys, std::string_view fallback) const;
  /// A list of whole numbers; empty if absent.
  std::vector<std::uint64_t> numbers(std::string_view key) const;

  /// The part, empty where it is absent (its sub-class's defaults then count); its defaults are recorded with its name.
  HfConfig part(std::string_view key) const;
  /// Without the part, the document itself: older composite configs keep the fields of the text model at the top.
  HfConfig part_or_self(std::string_view key) const;

  /// The first of `architectures`, empty if it names none.
  std::string architecture() const;

  /// Requires `divisor` to divide `value`; the error names both keys.
  void require_divides(std::string_view divisor_key, std::uint64_t divisor, std::string_view value_key,
                       std::uint64_t value) const;
  /// The error "KEY is VALUE, expected EXPECTED", placed at the key.
  [[nodiscard]] Error unexpected(std::string_view key, std::string_view expected, std::string_view hint) const;

  /// "num_key_value_heads = 8" for each size that the config left to its architecture, in the order of reading.
  const std::vector<std::string>& assumed() const { return *assumed_; }

 private:
  HfConfig(JsonView view, std::shared_ptr<std::vector<std::string>> assumed)
      : view_(std::move(view)), assumed_(std::move(assumed)) {}
  std::optional<JsonView> find(Keys keys) const;
  void assume(Keys keys, std::uint64_t value) const;
  std::string full_key(std::string_view key) const;

  JsonView view_;
  std::shared_ptr<std::vector<std::string>> assumed_;  // shared by the parts of one document: one record for all
};

}  // namespace zeroplan::models
