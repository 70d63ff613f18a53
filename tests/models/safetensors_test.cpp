#include "models/safetensors.h"

#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/core/file_io.h"
#include "models/safetensors_writer.h"
#include "tests/models/model_testing.h"

namespace zeroplan::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Length, header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return text + header + std::string(data_bytes, 'x');
}

/// Bytes that tell tensor and place.
void fill_pattern(std::size_t tensor, Bytes offset, std::span<std::byte> target) {
  for (std::size_t i = 0; i < target.size(); ++i) {
    target[i] = static_cast<std::byte>((tensor * 131 + (offset.count() + i) * 7) & 0xff);
  }
}

void expect_pattern(const TensorIndex& index, std::span<const TensorToWrite> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [file, entry] = index.find(tensors[i].name);
    ASSERT_NE(entry, nullptr) << tensors[i].name;
    EXPECT_EQ(entry->shape, tensors[i].shape);
    EXPECT_EQ(entry->dtype, tensors[i].type);
    std::vector<std::byte> read(entry->size.count());
    std::vector<std::byte> expected(read.size());
    file->read(*entry, Bytes(0), read);
    fill_pattern(i, Bytes(0), expected);
    EXPECT_EQ(read, expected) << tensors[i].name;
  }
}

const std::vector<TensorToWrite>& sample() {
  static const std::vector<TensorToWrite> tensors = {{"a.weight", DType::kBf16, {3, 5}},
                                                     {"b.weight", DType::kFp32, {1200, 2000}},  // more than one piece
                                                     {"c.scalar", DType::kInt64, {}},
                                                     {"d.empty", DType::kFp16, {0, 7}}};
  return tensors;
}

TEST(Safetensors, OneFileRoundTrip) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  write_safetensors_file(path, sample(), fill_pattern);
  const TensorIndex index = TensorIndex::open(path);
  expect_pattern(index, sample());
  EXPECT_EQ(index.all().front().file->metadata().at("format"), "pt");
  for (const auto& found : index.all()) {
    EXPECT_EQ(found.entry->offset.count() % (safetensors_bits(found.entry->dtype_name) / 8), 0u) << found.entry->name;
  }
}

TEST(Safetensors, ShardsRoundTrip) {
  const TemporaryFolder folder;
  const auto target = folder.path() / "out";
  write_safetensors_folder(target, sample(), fill_pattern, Bytes(64), {{"config.json", "{}"}});
  EXPECT_TRUE(std::filesystem::exists(target / "model-00003-of-00003.safetensors"));
  EXPECT_EQ(read_file(target / "config.json", Bytes(10)), "{}");
  expect_pattern(TensorIndex::open(target), sample());
  expect_pattern(TensorIndex::open(target / "model.safetensors.index.json"), sample());
}

TEST(Safetensors, ShardsAreFilledInOrder) {
  const std::vector<TensorToWrite> tensors = {
      {"a", DType::kFp32, {10}}, {"b", DType::kFp32, {10}}, {"c", DType::kFp32, {100}}, {"d", DType::kFp32, {1}}};
  EXPECT_THAT(split_in_shards(tensors, Bytes(80)), ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3)));
}

TEST(Safetensors, NothingStaysWhenFillingFails) {
  const TemporaryFolder folder;
  const auto fail = [](std::size_t, Bytes, std::span<std::byte>) {
    throw Error(ErrorCode::kCollective, "a peer died");
  };
  EXPECT_EQ(error_of([&] { write_safetensors_file(folder.path() / "m.safetensors", sample(), fail); }).code(),
            ErrorCode::kCollective);
  EXPECT_EQ(error_of([&] { write_safetensors_folder(folder.path() / "out", sample(), fail, Bytes(64), {}); }).code(),
            ErrorCode::kCollective);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, AFullFolderIsNotReplaced) {
  const TemporaryFolder folder;
  folder.write("precious", "data");
  EXPECT_EQ(error_of([&] { write_safetensors_folder(folder.path(), sample(), fill_pattern, Bytes(64), {}); }).code(),
            ErrorCode::kUsage);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "precious"));
}

TEST(Safetensors, NameTwiceIsNotWritten) {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors = {{"a", DType::kFp32, {1}}, {"a", DType::kFp32, {1}}};
  EXPECT_EQ(error_of([&] { write_safetensors_file(folder.path() / "m", tensors, fill_pattern); }).code(),
            ErrorCode::kInvalidInput);
}

struct BrokenFile {
  std::string name;
  std::string content;
  std::string expect;
};

class SafetensorsRejects : public testing::TestWithParam<BrokenFile> {};

TEST_P(SafetensorsRejects, WithTheReason) {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.safetensors", GetParam().content);
  const Error error = error_of([&] { SafetensorsFile file(path); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << error.message();
  EXPECT_THAT(error.message(), HasSubstr(GetParam().expect));
  EXPECT_EQ(error.place().file, path);
  EXPECT_FALSE(error.hint().empty());
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"w": {{"dtype": {}, "shape": {}, "data_offsets": {}}}}})", dtype, shape, offsets);
}

INSTANTIATE_TEST_SUITE_P(
    Files, SafetensorsRejects,
    testing::Values(
        BrokenFile{"Empty", "", "at least 8"}, BrokenFile{"ShorterThanItsLength", "abc", "at least 8"},
        BrokenFile{"HeaderLongerThanFile", file_of("{}", 0).replace(0, 1, "\x7f"), "for its header"},
        BrokenFile{"HeaderLengthOverflows", std::string(8, '\xff') + "{}", "for its header"},
        BrokenFile{"HeaderIsNoJson", file_of("{\"w\": ", 0), "not valid JSON"},
        BrokenFile{"HeaderIsAList", file_of("[]", 0), "no JSON object"},
        BrokenFile{"HeaderIsNotUtf8", file_of("{\"\xff\": 1}", 0), "not valid JSON"},
        BrokenFile{"EntryIsANumber", file_of(R"({"w": 7})", 0), "no object of dtype"},
        BrokenFile{"NoDtype", file_of(R"({"w": {"shape": [], "data_offsets": [0, 4]}})", 4), "w.dtype"},
        BrokenFile{"UnknownDtype", file_of(one(R"("F99")", "[1]", "[0, 4]"), 4), "F99"},
        BrokenFile{"DtypeIsANumber", file_of(one("32", "[1]", "[0, 4]"), 4), "expected a text"},
        BrokenFile{"NegativeExtent", file_of(one(R"("F32")", "[-1]", "[0, 4]"), 4), "not negative"},
        BrokenFile{"ShapeOverflows", file_of(one(R"("F32")", "[4294967296, 4294967296, 4]", "[0, 4]"), 4),
                   "fits 64 bits"},
        BrokenFile{"BitsOverflow", file_of(one(R"("F64")", "[4611686018427387904]", "[0, 0]"), 0), "fits 64 bits"},
        BrokenFile{"SizeIsNotThatOfShape", file_of(one(R"("F32")", "[2]", "[0, 4]"), 4), "8 bytes for shape [2]"},
        BrokenFile{"BeginBehindEnd", file_of(one(R"("F32")", "[1]", "[4, 0]"), 4), "begin <= end"},
        BrokenFile{"BeyondTheFile", file_of(one(R"("F32")", "[1]", "[0, 4]"), 3), "begin <= end <= 3"},
        BrokenFile{"OneOffset", file_of(one(R"("F32")", "[1]", "[0]"), 4), "[begin, end]"},
        BrokenFile{"BytesAtTheEnd", file_of(one(R"("F32")", "[1]", "[0, 4]"), 5), "the end of its last tensor"},
        BrokenFile{"BytesInFront", file_of(one(R"("F32")", "[1]", "[4, 8]"), 8), "belong to no tensor"},
        BrokenFile{"Overlap",
                   file_of(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                               "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
                           8),
                   "overlaps"},
        BrokenFile{"NameTwice",
                   file_of(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                               "a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
                           8),
                   "names a twice"},
        BrokenFile{"DeepNesting", file_of(std::string(100, '[') + std::string(100, ']'), 0), "nested deeper"},
        BrokenFile{"MetadataIsANumber", file_of(R"({"__metadata__": {"format": 1}})", 0), "is no text"}),
    [](const auto& test) { return test.param.name; });

TEST(Safetensors, ManyNamesTakeNoQuadraticTime) {
  std::string header = "{";
  for (int i = 0; i < 200'000; ++i) {
    header +=
        fmt::format(R"({}"tensor.{}": {{"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})", i == 0 ? "" : ",", i);
  }
  header += "}";
  std::map<std::string, std::string> metadata;
  EXPECT_EQ(detail::parse_safetensors_header(header, 8 + header.size(), "many", metadata).size(), 200'000u);
}

TEST(Safetensors, ReadBeyondATensorIsRefused) {
  const TemporaryFolder folder;
  write_safetensors_file(folder.path() / "m", sample(), fill_pattern);
  const SafetensorsFile file(folder.path() / "m");
  std::vector<std::byte> target(16);
  EXPECT_EQ(error_of([&] { file.read(file.tensors().front(), file.tensors().front().size, target); }).code(),
            ErrorCode::kInternal);
}

TEST(TensorIndex, RejectsIndexesThatLie) {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors = {{"a", DType::kFp32, {1}}};
  write_safetensors_file(folder.path() / "one.safetensors", tensors, fill_pattern);
  write_safetensors_file(folder.path() / "two.safetensors", tensors, fill_pattern);
  const auto open = [&](const std::string& text) {
    const std::string path = folder.write("model.safetensors.index.json", text);
    return error_of([&] { TensorIndex::open(path); });
  };
  EXPECT_THAT(open(R"({})").message(), HasSubstr("weight_map"));
  EXPECT_THAT(open(R"({"weight_map": {"a": "../one.safetensors"}})").message(), HasSubstr("beside the index"));
  EXPECT_THAT(open(R"({"weight_map": {"a": 3}})").message(), HasSubstr("beside the index"));
  EXPECT_THAT(open(R"({"weight_map": {"b": "one.safetensors"}})").message(), HasSubstr("b is not in"));
  EXPECT_THAT(open(R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})").message(),
              HasSubstr("expected in one file"));
  EXPECT_EQ(open(R"({"weight_map": {"a": "three.safetensors"}})").code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace zeroplan::models
