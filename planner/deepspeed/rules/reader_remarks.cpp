#include <algorithm>

#include <fmt/format.h>

#include "planner/deepspeed/rules/rules.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::size_t kMostOfOneKind = 20;

struct RemarkText {
  RemarkKind kind;
  std::string_view what;
  std::string_view fix;
  bool deepspeed_stops = false;  ///< Hjson, which DeepSpeed reads with, refuses or misreads it too
};

constexpr RemarkText kTexts[] = {
    {RemarkKind::kComment, "a comment, which JSON does not have", "remove the comment"},
    {RemarkKind::kTrailingComma, "a trailing comma before the closing bracket", "remove the comma"},
    {RemarkKind::kMissingComma, "a comma is missing before this member", "write the comma"},
    {RemarkKind::kUnquotedKey, "a key without quotes", "put the key into double quotes"},
    {RemarkKind::kUnquotedText, "a text without quotes", "put the text into double quotes"},
    {RemarkKind::kUnquotedTextRunsOn,
     "a word without quotes that is no JSON value, with more behind it; DeepSpeed's reader takes the whole rest of the "
     "line for a text",
     "put a text into double quotes; truth values are true and false, nothing is null", true},
    {RemarkKind::kSingleQuotes, "a text in single quotes", "use double quotes"},
    {RemarkKind::kControlCharacter, "a control character within a text", "write it as an escape such as \\t", true},
    {RemarkKind::kByteOrderMark, "a byte order mark before the text", "save the file as UTF-8 without it"},
    {RemarkKind::kRootWithoutBraces, "the braces around the document are missing", "put the document into { and }"},
};

}  // namespace

void report_reader_remarks(Workspace& work) {
  for (const RemarkText& text : kTexts) {
    const bool error = work.someone_fills() || text.deepspeed_stops;
    const std::string_view who =
        text.deepspeed_stops ? ""
        : work.someone_fills()
            ? "; the trainer reads strict JSON and refuses the file"
            : "; DeepSpeed reads it all the same, strict readers (the trainer, Accelerate) refuse it";
    std::size_t seen = 0;
    for (const ReaderRemark& remark : work.text.remarks) {
      if (remark.kind != text.kind || ++seen > kMostOfOneKind) continue;
      work.findings.add_at(error ? Severity::kError : Severity::kWarning, "json", remark.at,
                           fmt::format("line {}, column {}: {}{}", remark.at.line, remark.at.column, text.what, who),
                           std::string(text.fix));
    }
  }
  for (const ReaderRemark& remark : work.text.remarks) {
    if (remark.kind != RemarkKind::kDuplicateKey) continue;
    const bool harmless = work.someone_fills() && remark.same_value;
    work.findings.add_at(
        harmless ? Severity::kWarning : Severity::kError, remark.path, remark.at,
        fmt::format("duplicate key {}: it stands at line {} and again at line {}; DeepSpeed refuses duplicates, "
                    "plain readers silently keep the last one",
                    remark.path, remark.first.line, remark.at.line),
        "keep one of them");
  }
}

}  // namespace zeroplan::planner::deepspeed
