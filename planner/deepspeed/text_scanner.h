// Moves through a text and knows line and column. Used by the lenient reader and the hostfile parser.
#pragma once

#include <string>
#include <string_view>

#include "planner/deepspeed/config_text.h"

namespace zeroplan::planner::deepspeed {

/// A cursor over a text that it does not own.
class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  /// The byte `ahead` of the cursor, '\0' beyond the end.
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  TextPosition position() const { return {line_, at_ - line_start_ + 1}; }
  std::size_t offset() const { return at_; }
  std::string_view slice(std::size_t begin, std::size_t end) const { return text_.substr(begin, end - begin); }

  /// Takes one byte.
  char take() {
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      line_start_ = at_;
    }
    return c;
  }
  void take(std::size_t count) {
    while (count-- > 0 && !at_end()) take();
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  std::uint64_t line_ = 1;
};

}  // namespace zeroplan::planner::deepspeed
