#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "models/core/file_io.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/runtime/training_support.h"

namespace zeroplan::testing {
namespace {

namespace fs = std::filesystem;

PlanSettings at_stage(std::uint64_t stage) {
  return {.ranks = 2, .stage = stage};
}

std::vector<std::string> train(std::uint64_t stage, std::uint64_t steps, const fs::path& folder, bool resume,
                               std::uint64_t every = 0, std::uint64_t keep = 0) {
  TinyRun run(gpt2_config(), at_stage(stage));
  runtime::TrainSettings settings;
  settings.steps = steps;
  settings.checkpoint_dir = folder;
  settings.checkpoint_every = every;
  settings.keep = keep;
  settings.resume = resume;
  return run.train(settings);
}

/// Applies `damage` to a checkpoint of two steps and says how resuming fails.
template <class Damage>
std::string failure_after(const Damage& damage, ErrorCode code) {
  const TemporaryFolder folder;
  train(1, 2, folder.path(), false);
  damage(folder.path() / "step-00000002");
  try {
    train(1, 3, folder.path(), true);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "resumed from a damaged checkpoint";
  return "";
}

TEST(Checkpoint, ResumeEqualsNoInterruptionAtEveryStage) {
  const TemporaryFolder none;
  const auto whole = losses(gpt2_config(), at_stage(0), 5);
  for (const auto& [first, second] : {std::pair{0, 0}, {3, 3}, {1, 3}, {3, 0}, {2, 1}}) {
    const TemporaryFolder folder;
    train(static_cast<std::uint64_t>(first), 2, folder.path(), false);
    const auto rest = train(static_cast<std::uint64_t>(second), 5, folder.path(), true);
    EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 2, whole.end())) << first << " to " << second;
  }
}

TEST(Checkpoint, KeepsTheLastOnes) {
  const TemporaryFolder folder;
  train(0, 5, folder.path(), false, 1, 2);
  EXPECT_TRUE(fs::exists(folder.path() / "step-00000005"));
  EXPECT_TRUE(fs::exists(folder.path() / "step-00000004"));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000003"));
  EXPECT_EQ(read_file(folder.path() / "latest", Bytes(100)), "step-00000005\n");
}

TEST(Checkpoint, DetectsAFlippedBit) {
  const std::string message = failure_after(
      [](const fs::path& checkpoint) {
        std::fstream file(checkpoint / "rank-00001.bin", std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(100);
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(100);
        file.put(byte);
      },
      ErrorCode::kInvalidInput);
  EXPECT_NE(message.find("checksum"), std::string::npos) << message;
}

TEST(Checkpoint, DetectsACutFile) {
  const std::string message = failure_after(
      [](const fs::path& checkpoint) { fs::resize_file(checkpoint / "rank-00000.bin", 1000); }, ErrorCode::kIo);
  EXPECT_NE(message.find("1000 bytes"), std::string::npos) << message;
}

TEST(Checkpoint, DetectsAMissingAndABrokenList) {
  failure_after([](const fs::path& checkpoint) { fs::remove(checkpoint / "rank-00001.json"); }, ErrorCode::kIo);
  failure_after([](const fs::path& checkpoint) { std::ofstream(checkpoint / "manifest.json") << "{\"format\": "; },
                ErrorCode::kInvalidInput);
  failure_after(
      [](const fs::path& checkpoint) { std::ofstream(checkpoint / "manifest.json") << R"({"format": "other"})"; },
      ErrorCode::kInvalidInput);
  failure_after(
      [](const fs::path& checkpoint) { std::ofstream(checkpoint.parent_path() / "latest") << "../elsewhere"; },
      ErrorCode::kInvalidInput);
}

TEST(Checkpoint, OfAnotherWorldNamesBoth) {
  const TemporaryFolder folder;
  train(1, 1, folder.path(), false);
  TinyRun run(gpt2_config(), {.ranks = 3, .stage = 1});
  try {
    run.train({.steps = 2, .checkpoint_dir = folder.path(), .resume = true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("written by 2 ranks, the plan has 3"), std::string::npos) << error.message();
  }
}

TEST(Checkpoint, OfAnEarlierRunIsNotReplacedByANewOne) {
  const TemporaryFolder folder;
  train(0, 2, folder.path(), false);
  try {
    train(0, 1, folder.path(), false);
    FAIL() << "an earlier run's checkpoints were taken over";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(error.hint().find("--resume"), std::string::npos) << error.hint();
  }
  EXPECT_EQ(read_file(folder.path() / "latest", Bytes(100)), "step-00000002\n");
}

TEST(Checkpoint, FolderIsProvenBeforeTraining) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "no folder";
  TinyRun run(gpt2_config(), at_stage(0));
  runtime::TrainSettings settings;
  settings.steps = 1;
  settings.checkpoint_dir = folder.path() / "file" / "inside";
  EXPECT_THROW(runtime::Trainer(run.plan, settings, run.batches, *run.weights, *run.schedule), Error);
  EXPECT_THROW(runtime::prepare_checkpoint_directory(folder.path(), false, Bytes(std::uint64_t{1} << 62)), Error);
}

TEST(Checkpoint, LeftOversOfKilledRunsGo) {
  const TemporaryFolder folder;
  const fs::path of_a_dead_process = folder.path() / ".step-00000009.tmp2147483646";
  const fs::path of_this_process = folder.path() / fmt::format(".step-00000009.tmp{}", ::getpid());
  const fs::path of_a_user = folder.path() / ".step-notes";
  for (const fs::path& path : {of_a_dead_process, of_this_process, of_a_user}) fs::create_directory(path);
  runtime::prepare_checkpoint_directory(folder.path(), false, Bytes());
  EXPECT_FALSE(fs::exists(of_a_dead_process));
  EXPECT_TRUE(fs::exists(of_this_process));
  EXPECT_TRUE(fs::exists(of_a_user));
}

TEST(Checkpoint, TakesTheBytesThatWereAskedFor) {
  const TemporaryFolder folder;
  TinyRun run(gpt2_config(), at_stage(1));
  run.train({.steps = 1, .checkpoint_dir = folder.path()});
  std::uintmax_t written = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "step-00000001")) {
    if (entry.path().extension() == ".bin") written += entry.file_size();
  }
  EXPECT_EQ(written, runtime::checkpoint_bytes(run.plan).count());
}

TEST(Checkpoint, ThatCannotBeWrittenLeavesTheOneBefore) {
  const TemporaryFolder folder;
  train(0, 1, folder.path(), false);
  // A file where the temporary folder's parent must be: the second save fails, as it does on a full disk.
  const fs::path blocked = folder.path() / "latest" / "inside";
  EXPECT_THROW(train(0, 2, blocked, false), Error);
  EXPECT_EQ(read_file(folder.path() / "latest", Bytes(100)), "step-00000001\n");
  EXPECT_EQ(train(0, 2, folder.path(), true).size(), 1u);
}

}  // namespace
}  // namespace zeroplan::testing
