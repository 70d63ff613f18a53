#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "planner/deepspeed/check.h"
#include "planner/deepspeed/config_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

std::size_t count(const ConfigText& text, RemarkKind kind) {
  return static_cast<std::size_t>(std::count_if(text.remarks.begin(), text.remarks.end(),
                                                [kind](const ReaderRemark& r) { return r.kind == kind; }));
}

TEST(LenientReader, StrictJsonHasNoRemarks) {
  const ConfigText text = read_config_text(R"({"a": {"b": [1, 2.5, "x", null, true]}, "c": -3e2})", "c.json");
  EXPECT_TRUE(text.remarks.empty());
  EXPECT_FALSE(text.strict_json_refuses());
  EXPECT_EQ(text.root, Json::parse(R"({"a": {"b": [1, 2.5, "x", null, true]}, "c": -3e2})"));
}

TEST(LenientReader, KnowsLineAndColumnOfKeysAndValues) {
  const ConfigText text = read_config_text("{\n  \"zero\": {\"stage\":\n    3}}", "c.json");
  const MemberPlace* place = text.place_of("zero.stage");
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(place->key, (TextPosition{2, 12}));
  EXPECT_EQ(place->value, (TextPosition{3, 5}));
  EXPECT_EQ(text.place_of("zero.absent")->key, (TextPosition{2, 3}));
  EXPECT_EQ(text.place_of("absent"), nullptr);
}

TEST(LenientReader, TrailingCommasCommentsAndMissingCommasAreRead) {
  const ConfigText text =
      read_config_text("{\n# one\n\"a\": [1, 2,], // two\n/* three */ \"b\": 2\n\"c\": 3,\n}", "c.json");
  EXPECT_EQ(text.root, Json::parse(R"({"a": [1, 2], "b": 2, "c": 3})"));
  EXPECT_EQ(count(text, RemarkKind::kComment), 3u);
  EXPECT_EQ(count(text, RemarkKind::kTrailingComma), 2u);
  EXPECT_EQ(count(text, RemarkKind::kMissingComma), 1u);
  EXPECT_TRUE(text.strict_json_refuses());
}

TEST(LenientReader, DuplicateKeysAreLocatedAndTheLastValueCounts) {
  const ConfigText text = read_config_text("{\"z\": {\"stage\": 2},\n \"z\": {\"stage\": 3}}", "c.json");
  ASSERT_EQ(count(text, RemarkKind::kDuplicateKey), 1u);
  const ReaderRemark& remark = text.remarks.front();
  EXPECT_EQ(remark.path, "z");
  EXPECT_EQ(remark.first.line, 1u);
  EXPECT_EQ(remark.at.line, 2u);
  EXPECT_FALSE(remark.same_value);
  EXPECT_EQ(text.root["z"]["stage"], 3);
}

TEST(LenientReader, WordsWithoutQuotesAndRootWithoutBraces) {
  const ConfigText text = read_config_text("stage: 3 # three\nname: 'x'\ndevice: cpu\n", "c.hjson");
  EXPECT_EQ(text.root, Json::parse(R"({"stage": 3, "name": "x", "device": "cpu"})"));
  EXPECT_EQ(count(text, RemarkKind::kRootWithoutBraces), 1u);
  EXPECT_EQ(count(text, RemarkKind::kUnquotedText), 1u);
}

TEST(LenientReader, WordsThatHjsonWouldExtendToTheLinesEndAreTold) {
  const ConfigText text = read_config_text("{\"a\": True,\n \"b\": cpu // the host\n \"c\": x}", "c.json");
  EXPECT_EQ(text.root, Json::parse(R"({"a": "True", "b": "cpu", "c": "x"})"));
  EXPECT_EQ(count(text, RemarkKind::kUnquotedTextRunsOn), 3u);
  EXPECT_EQ(count(text, RemarkKind::kUnquotedText), 0u);
}

TEST(LenientReader, EscapesAndBadUtf8BecomeUtf8) {
  const ConfigText text = read_config_text("{\"a\": \"\\u00e9\\ud83d\\ude00\\ud800\", \"b\": \"\xff\"}", "c.json");
  EXPECT_EQ(text.root["a"], "\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBD");
  EXPECT_EQ(text.root["b"], "\xEF\xBF\xBD");
}

TEST(LenientReader, NumbersKeepTheirKind) {
  const ConfigText text = read_config_text(R"({"i": 5, "f": 5e8, "l": 18446744073709551615, "h": 1e999})", "c.json");
  EXPECT_TRUE(text.root["i"].is_number_integer());
  EXPECT_TRUE(text.root["f"].is_number_float());
  EXPECT_TRUE(text.root["l"].is_number_unsigned());
  EXPECT_TRUE(std::isinf(text.root["h"].get<double>()));
}

TEST(LenientReader, WhatCannotBeReadIsAnErrorWithItsPlace) {
  for (const char* wrong : {"", "[1]", "{\"a\": }", "{\"a\" 1}", "{\"a\": 1} x", "{\"a\": \"x", "{\"a\": [1",
                            "{\"a\": 1 \"b\": 2}", "{/* }"}) {
    try {
      read_config_text(wrong, "c.json");
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidInput) << wrong;
      EXPECT_TRUE(e.place().line.has_value()) << wrong;
    }
  }
}

TEST(LenientReader, DepthAndSizeAreLimited) {
  EXPECT_THROW(read_config_text("{\"a\": " + std::string(100, '['), "c.json"), Error);
  std::string nested = "{\"a\": ";
  for (int i = 0; i < 100000; ++i) nested += "{\"a\": ";
  EXPECT_THROW(read_config_text(nested, "c.json"), Error);
  EXPECT_THROW(read_config_text(std::string((1 << 20) + 1, ' '), "c.json"), Error);
}

TEST(LenientReader, CostGrowsWithTheTextOnly) {
  std::string keys = "{";
  for (int i = 0; i < 60000; ++i) keys += "\"k" + std::to_string(i) + "\": 1,";
  EXPECT_EQ(read_config_text(keys + "\"e\": 2}", "c.json").root.size(), 60001u);
  EXPECT_EQ(read_config_text("a: " + std::string(300000, '1') + std::string(300000, ':'), "c.json").root.size(), 1u);
}

TEST(LenientReader, KeysWithoutQuotesBecomeUtf8Too) {
  const ConfigText text = read_config_text("{\xe4key: 1}", "c.json");
  EXPECT_EQ(text.root, Json::parse("{\"\xEF\xBF\xBDkey\": 1}"));
  EXPECT_NE(text.place_of("\xEF\xBF\xBDkey"), nullptr);
}

TEST(LenientReader, FuzzerFindingsStayFixed) {
  const std::filesystem::path folder = std::filesystem::path(ZP_SOURCE_DIR) / "tests/fuzz/corpus/reader";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream content;
    content << in.rdbuf();
    // The first byte chooses who reads, as in the fuzz target.
    const std::string text = content.str().substr(1);
    CheckInput input;
    input.config_text = text;
    EXPECT_NO_THROW(static_cast<void>(check(input).to_json().dump())) << entry.path();
    try {
      static_cast<void>(read_config_text(text, "fuzz"));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidInput) << entry.path();
    }
    ++files;
  }
  EXPECT_GT(files, 0u);
}

}  // namespace
}  // namespace zeroplan::planner::deepspeed
