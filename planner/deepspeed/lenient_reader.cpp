#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "planner/deepspeed/config_text.h"
#include "planner/deepspeed/text_scanner.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
bool is_punctuation(char c) {
  return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':';
}

/// Recursive descent over one text; depth is bounded by the limits.
class LenientReader {
 public:
  LenientReader(std::string_view text, std::string file, const ReaderLimits& limits) : scan_(text), limits_(limits) {
    result_.file = std::move(file);
  }

  ConfigText read() {
    if (scan_.starts_with("\xEF\xBB\xBF")) {
      remark(RemarkKind::kByteOrderMark, scan_.position());
      scan_.take(3);
    }
    skip_space();
    if (scan_.at_end()) throw unreadable("the text is empty, expected an object");
    if (scan_.peek() == '{') {
      result_.root = object("", 1, true);
    } else if (scan_.peek() == '[') {
      throw unreadable("found a list, expected an object");
    } else {
      remark(RemarkKind::kRootWithoutBraces, scan_.position());
      result_.root = object("", 1, false);
    }
    skip_space();
    if (!scan_.at_end()) throw unreadable("found more text after the closing brace");
    return std::move(result_);
  }

 private:
  Error unreadable(const std::string& what) const {
    const TextPosition at = scan_.position();
    return Error(ErrorCode::kInvalidInput,
                 fmt::format("{} cannot be read at line {}, column {}: {}", result_.file, at.line, at.column, what))
        .at({.file = result_.file, .line = at.line, .column = at.column});
  }

  void remark(RemarkKind kind, TextPosition at) {
    if (result_.remarks.size() < ConfigText::kMostRemarks) result_.remarks.push_back({kind, at, "", {}, true});
  }

  /// Skips white space and comments.
  void skip_space() {
    while (!scan_.at_end()) {
      const char c = scan_.peek();
      if (is_space(c)) {
        scan_.take();
      } else if (c == '#' || scan_.starts_with("//")) {
        remark(RemarkKind::kComment, scan_.position());
        while (!scan_.at_end() && scan_.peek() != '\n') scan_.take();
      } else if (scan_.starts_with("/*")) {
        remark(RemarkKind::kComment, scan_.position());
        scan_.take(2);
        while (!scan_.at_end() && !scan_.starts_with("*/")) scan_.take();
        if (scan_.at_end()) throw unreadable("a comment that begins with /* does not end");
        scan_.take(2);
      } else {
        break;
      }
    }
  }

  void check_depth(int depth) const {
    if (depth > limits_.most_depth) throw unreadable(fmt::format("nested deeper than {} levels", limits_.most_depth));
  }

  /// After a value: takes the comma. Returns false where the container ends.
  bool next_member(char closing) {
    skip_space();
    if (scan_.at_end()) {
      if (closing == '\0') return false;
      throw unreadable(fmt::format("the text ends, expected '{}'", closing));
    }
    const char c = scan_.peek();
    if (c == closing) return false;
    if (c != ',') {
      if (c == '}' || c == ']' || c == ':') {
        throw unreadable(
            fmt::format("found '{}', expected a comma{}", c, closing == '\0' ? "" : fmt::format(" or '{}'", closing)));
      }
      remark(RemarkKind::kMissingComma, scan_.position());
      return true;
    }
    const TextPosition comma = scan_.position();
    scan_.take();
    skip_space();
    if (scan_.at_end() ? closing == '\0' : scan_.peek() == closing) {
      remark(RemarkKind::kTrailingComma, comma);
      return false;
    }
    return true;
  }

  std::string key() {
    const char c = scan_.peek();
    if (c == '"' || c == '\'') return quoted();
    const TextPosition at = scan_.position();
    std::string name;
    while (!scan_.at_end() && !is_space(scan_.peek()) && !is_punctuation(scan_.peek())) name += scan_.take();
    if (name.empty()) throw unreadable(fmt::format("found '{}', expected a key in quotes", shown_byte(c)));
    remark(RemarkKind::kUnquotedKey, at);
    return clean_utf8(name);
  }

  Json object(const std::string& path, int depth, bool braces) {
    check_depth(depth);
    const char closing = braces ? '}' : '\0';
    if (braces) scan_.take();
    Json::object_t members;
    std::unordered_map<std::string, std::size_t> seen;
    skip_space();
    if (scan_.at_end() && braces) throw unreadable("the text ends, expected '}'");
    bool more = scan_.peek() != closing;
    while (more) {
      MemberPlace place;
      place.key = scan_.position();
      const std::string name = key();
      skip_space();
      if (scan_.peek() != ':') throw unreadable(fmt::format("expected ':' after the key {}", quoted_text(name)));
      scan_.take();
      skip_space();
      place.value = scan_.position();
      const std::string member_path = path.empty() ? name : fmt::format("{}.{}", path, name);
      Json member = value(member_path, depth);
      const auto [it, is_new] = seen.emplace(name, members.size());
      if (is_new) {
        members.emplace_back(name, std::move(member));
      } else {
        Json& earlier = std::next(members.begin(), static_cast<std::ptrdiff_t>(it->second))->second;
        note_duplicate(member_path, place, earlier == member);
        earlier = std::move(member);
      }
      result_.places[member_path] = place;
      more = next_member(closing);
    }
    if (braces) scan_.take();
    return Json(std::move(members));
  }

  void note_duplicate(const std::string& path, const MemberPlace& place, bool same_value) {
    const auto before = result_.places.find(path);
    const TextPosition first = before == result_.places.end() ? TextPosition{} : before->second.key;
    if (result_.remarks.size() < ConfigText::kMostRemarks) {
      result_.remarks.push_back({RemarkKind::kDuplicateKey, place.key, path, first, same_value});
    }
  }

  Json list(const std::string& path, int depth) {
    check_depth(depth);
    scan_.take();
    Json::array_t elements;
    skip_space();
    if (scan_.at_end()) throw unreadable("the text ends, expected ']'");
    bool more = scan_.peek() != ']';
    while (more) {
      elements.push_back(value(path, depth));
      more = next_member(']');
    }
    scan_.take();
    return Json(std::move(elements));
  }

  Json value(const std::string& path, int depth) {
    if (scan_.at_end()) throw unreadable("the text ends, expected a value");
    const char c = scan_.peek();
    if (c == '{') return object(path, depth + 1, true);
    if (c == '[') return list(path, depth + 1);
    if (c == '"' || c == '\'') return quoted();
    if (is_punctuation(c)) throw unreadable(fmt::format("found '{}', expected a value", c));
    return bare();
  }

  bool at_comment() const { return scan_.peek() == '#' || scan_.starts_with("//") || scan_.starts_with("/*"); }

  /// A word without quotes: true, false, null, a number, or a text. Hjson, which DeepSpeed reads with, takes the whole
  /// rest of the line for the text, commas, brackets and comments included; here it ends before these, with a remark.
  Json bare() {
    const TextPosition at = scan_.position();
    const std::size_t begin = scan_.offset();
    std::size_t word_end = begin;
    while (!scan_.at_end() && scan_.peek() != '\n' && scan_.peek() != ',' && scan_.peek() != '}' &&
           scan_.peek() != ']' && !at_comment()) {
      const char c = scan_.peek();
      if (c == '"' && word_end < scan_.offset() && parse_bare_value(scan_.slice(begin, word_end))) {
        throw unreadable(fmt::format("found '\"', expected a comma after the value {}",
                                     clean_utf8(scan_.slice(begin, std::min(word_end, begin + 40)))));
      }
      scan_.take();
      if (!is_space(c)) word_end = scan_.offset();
    }
    const std::string_view word = scan_.slice(begin, word_end);
    if (const auto plain = parse_bare_value(word)) return *plain;
    const bool line_ends = scan_.at_end() || scan_.peek() == '\n';
    remark(line_ends ? RemarkKind::kUnquotedText : RemarkKind::kUnquotedTextRunsOn, at);
    return clean_utf8(word);
  }

  std::string quoted() {
    if (scan_.starts_with("'''")) return multi_line();
    const char quote = scan_.peek();
    const TextPosition begin = scan_.position();
    if (quote == '\'') remark(RemarkKind::kSingleQuotes, begin);
    scan_.take();
    std::string text;
    while (true) {
      if (scan_.at_end()) throw unreadable(fmt::format("a text that begins at line {} does not end", begin.line));
      const char c = scan_.peek();
      if (c == quote) break;
      if (c == '\n') throw unreadable("a line ends within a text in quotes");
      if (static_cast<unsigned char>(c) < 0x20) remark(RemarkKind::kControlCharacter, scan_.position());
      if (c == '\\') {
        append_escape(text);
      } else {
        text += scan_.take();
      }
    }
    scan_.take();
    return clean_utf8(text);
  }

  std::string multi_line() {
    remark(RemarkKind::kSingleQuotes, scan_.position());
    scan_.take(3);
    const std::size_t begin = scan_.offset();
    while (!scan_.at_end() && !scan_.starts_with("'''")) scan_.take();
    if (scan_.at_end()) throw unreadable("a text that begins with ''' does not end");
    const std::string text(scan_.slice(begin, scan_.offset()));
    scan_.take(3);
    return clean_utf8(text);
  }

  void append_escape(std::string& text) {
    scan_.take();
    const char c = scan_.peek();
    switch (c) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'r':
        text += '\r';
        break;
      case 'b':
        text += '\b';
        break;
      case 'f':
        text += '\f';
        break;
      case '"':
      case '\'':
      case '\\':
      case '/':
        text += c;
        break;
      case 'u':
        scan_.take();
        append_code_point(text);
        return;
      default:
        throw unreadable(fmt::format("found the escape \\{}, expected one that JSON has", shown_byte(c)));
    }
    scan_.take();
  }

  std::uint32_t four_digits() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hexadecimal_digit(scan_.peek());
      if (digit < 0) throw unreadable("expected four hexadecimal digits after \\u");
      code = code * 16 + static_cast<std::uint32_t>(digit);
      scan_.take();
    }
    return code;
  }

  void append_code_point(std::string& text) {
    std::uint32_t code = four_digits();
    if (code >= 0xD800 && code < 0xDC00 && scan_.starts_with("\\u")) {
      scan_.take(2);
      const std::uint32_t low = four_digits();
      code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
    }
    append_utf8(text, code);
  }

  TextScanner scan_;
  ReaderLimits limits_;
  ConfigText result_;
};

}  // namespace

ConfigText read_config_text(std::string_view text, std::string file, const ReaderLimits& limits) {
  if (text.size() > limits.most_bytes) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} has {} bytes, expected at most {}", file, text.size(), limits.most_bytes))
        .at({.file = file});
  }
  return LenientReader(text, std::move(file), limits).read();
}

}  // namespace zeroplan::planner::deepspeed
