#include <cstring>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "models/core/error.h"
#include "runtime/data/batches.h"
#include "tests/runtime/temporary_folder.h"

namespace zeroplan::runtime {
namespace {

using testing::TemporaryFolder;

template <class T>
std::string write_values(const TemporaryFolder& folder, const std::string& name, const std::vector<T>& values) {
  std::ofstream file(folder.path() / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  return (folder.path() / name).string();
}

std::string message_of(const DataFlags& flags, ErrorCode code) {
  try {
    open_tokens(flags);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::vector<std::uint16_t> counting(std::size_t n) {
  std::vector<std::uint16_t> ids(n);
  std::iota(ids.begin(), ids.end(), std::uint16_t{0});
  return ids;
}

TEST(TokenSource, RefusesIdsBeyondTheVocabulary) {
  const TemporaryFolder folder;
  const std::string path = write_values<std::uint16_t>(folder, "a.bin", {1, 2, 100, 3});
  const std::string message = message_of({.data = path, .labels = {}, .vocabulary = 100}, ErrorCode::kInvalidInput);
  EXPECT_NE(message.find("token 100 at position 2"), std::string::npos) << message;
}

TEST(TokenSource, RefusesHalfATokenAndMissingFiles) {
  const TemporaryFolder folder;
  const std::string path = write_values<std::uint8_t>(folder, "a.bin", {1, 0, 2});
  EXPECT_NE(message_of({.data = path, .labels = {}, .vocabulary = 100}, ErrorCode::kInvalidInput).find("3 bytes"),
            std::string::npos);
  message_of({.data = (folder.path() / "none.bin").string(), .labels = {}, .vocabulary = 100}, ErrorCode::kIo);
  message_of({.data = (folder.path() / "none.txt").string(), .labels = {}, .vocabulary = 300}, ErrorCode::kIo);
}

TEST(TokenSource, ReadsWideIdsForLargeVocabularies) {
  const TemporaryFolder folder;
  const std::string path = write_values<std::uint32_t>(folder, "a.bin", {70000, 5});
  const auto source = open_tokens({.data = path, .labels = {}, .vocabulary = 80000});
  std::int32_t ids[2];
  source->read(0, ids);
  EXPECT_EQ(ids[0], 70000);
}

TEST(TokenSource, ChecksLabels) {
  const TemporaryFolder folder;
  const std::string data = write_values(folder, "a.bin", counting(8));
  const std::string few = write_values<std::int32_t>(folder, "few.bin", {1, 2});
  message_of({.data = data, .labels = few, .vocabulary = 10}, ErrorCode::kInvalidInput);
  const std::string wrong = write_values<std::int32_t>(folder, "wrong.bin", {0, 1, 2, 3, -1, 5, 6, 7});
  EXPECT_NE(message_of({.data = data, .labels = wrong, .vocabulary = 10}, ErrorCode::kInvalidInput)
                .find("label -1 at position 4"),
            std::string::npos);
  message_of({.data = "random", .labels = wrong, .vocabulary = 10}, ErrorCode::kUsage);
}

TEST(TokenSource, ReadsAFolderAsBytesAcrossFiles) {
  const TemporaryFolder folder;
  write_values<std::uint8_t>(folder, "b.txt", {4, 5});
  write_values<std::uint8_t>(folder, "a.txt", {1, 2, 255});
  write_values<std::uint8_t>(folder, ".hidden", {9, 9, 9});
  const auto source = open_tokens({.data = folder.path().string(), .labels = {}, .vocabulary = 256});
  ASSERT_EQ(source->tokens(), 5u);
  std::int32_t ids[4];
  source->read(1, ids);
  EXPECT_EQ((std::vector<std::int32_t>(ids, ids + 4)), (std::vector<std::int32_t>{2, 255, 4, 5}));
  message_of({.data = folder.path().string(), .labels = {}, .vocabulary = 255}, ErrorCode::kUsage);
}

TEST(Batches, NeedOneSequenceAndOneToken) {
  const TemporaryFolder folder;
  const auto source = open_tokens({.data = write_values(folder, "a.bin", counting(8)), .labels = {}, .vocabulary = 10});
  EXPECT_THROW(Batches(*source, {.seq = 8}, 0, "a.bin"), Error);
  EXPECT_EQ(Batches(*source, {.seq = 7}, 0, "a.bin").sequences(), 1u);
  const auto empty = open_tokens({.data = write_values(folder, "e.bin", counting(0)), .labels = {}, .vocabulary = 10});
  EXPECT_THROW(Batches(*empty, {.seq = 1}, 0, "e.bin"), Error);
}

TEST(Batches, GiveEachSequenceOnceToSomeRankAndShiftLabelsByOne) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kSeq = 4;
  const auto source =
      open_tokens({.data = write_values(folder, "a.bin", counting(12 * kSeq + 1)), .labels = {}, .vocabulary = 100});
  const Batches batches(*source, {.ranks = 3, .accumulation = 2, .micro_batch = 2, .seq = kSeq}, 5, "a.bin");
  ASSERT_EQ(batches.sequences(), 12u);
  std::vector<int> seen(12, 0);
  std::int32_t tokens[2 * kSeq];
  std::int32_t labels[2 * kSeq];
  for (std::uint64_t pass = 0; pass < 2; ++pass) {
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      batches.read(0, pass, rank, tokens, labels);
      for (std::size_t i = 0; i < 2 * kSeq; ++i) EXPECT_EQ(labels[i], tokens[i] + 1);
      ++seen[static_cast<std::size_t>(tokens[0]) / kSeq];
      ++seen[static_cast<std::size_t>(tokens[kSeq]) / kSeq];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(12, 1));
  EXPECT_EQ(batches.valid_labels(0), 48);
}

TEST(Batches, CountLabelsOfAllRanksAndPasses) {
  const TemporaryFolder folder;
  const std::string data = write_values(folder, "a.bin", counting(9));
  const std::string labels = write_values<std::int32_t>(folder, "l.bin", {0, 1, -100, 3, 4, -100, -100, 7, 8});
  const auto source = open_tokens({.data = data, .labels = labels, .vocabulary = 10});
  const Batches batches(*source, {.ranks = 2, .accumulation = 1, .micro_batch = 1, .seq = 4}, 0, "a.bin");
  EXPECT_EQ(batches.valid_labels(0), 5);
}

}  // namespace
}  // namespace zeroplan::runtime
