#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/commands.h"
#include "models/core/file_io.h"

namespace zeroplan::cli {
namespace {

class TuneCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("zeroplan_tune_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static Answer tune(std::vector<std::string> flags) {
    const auto command = make_tune_command();
    CLI::App app;
    command->add_flags(app);
    std::vector<std::string> arguments = {"gpt2", "--seq", "128", "--global-batch", "8"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    app.parse(arguments);
    return command->run({});
  }

  std::filesystem::path folder_;
};

TEST_F(TuneCommandTest, RefusesAStageThatTheFrameworkDoesNotKnow) {
  for (const auto& [framework, stage] : {std::pair{"fsdp2", "1"}, {"fsdp2", "0,3"}, {"pytorch", "3"}, {"ddp", "2"}}) {
    EXPECT_THROW(tune({"--machine", "h100", "--framework", framework, "--stage", stage}), Error) << framework << stage;
  }
  EXPECT_EQ(tune({"--machine", "h100,gpus=2", "--framework", "fsdp2", "--stage", "all"}).exit_code, kExitDone);
}

TEST_F(TuneCommandTest, AnswersWithTheKeysOfTheContract) {
  const Answer answer = tune({"--machine", "h100,gpus=2", "--top", "3", "-o", path("plan.json")});
  EXPECT_EQ(answer.exit_code, kExitDone);
  for (const char* key : {"model", "candidates_considered", "elapsed_ms", "ranked", "rejected"}) {
    EXPECT_TRUE(answer.document.contains(key)) << key;
  }
  ASSERT_EQ(answer.document["ranked"].size(), 3u);
  std::uint64_t rank = 0;
  for (const Json& ranked : answer.document["ranked"]) {
    EXPECT_EQ(ranked["rank"], ++rank);
    EXPECT_EQ(ranked["fits"], "yes");
    EXPECT_TRUE(ranked["predicted"]["tokens_per_s"].is_number());
    EXPECT_TRUE(ranked["tiers"]["device"]["need_bytes"].is_number_unsigned());
    EXPECT_FALSE(ranked["why"].empty());
  }
  const Json plan = Json::parse(read_file(path("plan.json"), Bytes(1 << 24)));
  EXPECT_EQ(plan["strategy"]["stage"], answer.document["ranked"][0]["strategy"]["stage"]);
}

TEST_F(TuneCommandTest, ExportsTheBestStrategy) {
  const Answer answer = tune({"--machine", "h100,gpus=2", "--export", "deepspeed=" + path("ds.json"),
                              "accelerate=" + path("a.yaml"), "fsdp=" + path("f.yaml")});
  ASSERT_EQ(answer.exit_code, kExitDone);
  const Json config = Json::parse(read_file(path("ds.json"), Bytes(1 << 20)));
  EXPECT_EQ(config["zero_optimization"]["stage"], answer.document["ranked"][0]["strategy"]["stage"]);
  EXPECT_EQ(config["train_batch_size"], 8);
  EXPECT_NE(read_file(path("a.yaml"), Bytes(1 << 20)).find(path("ds.json")), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path("f.yaml")));
}

TEST_F(TuneCommandTest, SaysNoWhereNothingFitsAndWritesNothing) {
  const Answer answer = tune({"--machine", "h100,gpus=2", "--budget", "700MiB", "-o", path("plan.json")});
  EXPECT_EQ(answer.exit_code, kExitNo);
  EXPECT_TRUE(answer.document["ranked"].empty());
  ASSERT_FALSE(answer.document["rejected"].empty());
  EXPECT_EQ(answer.document["rejected"][0]["limit"], "device");
  EXPECT_FALSE(std::filesystem::exists(path("plan.json")));
}

TEST_F(TuneCommandTest, TunesForOtherFrameworks) {
  for (const char* framework : {"deepspeed", "fsdp2", "ddp", "pytorch"}) {
    const Answer answer = tune({"--machine", "h100,gpus=2", "--framework", framework});
    EXPECT_EQ(answer.exit_code, kExitDone) << framework;
    EXPECT_EQ(answer.document["framework"], framework);
    EXPECT_TRUE(answer.document["ranked"][0]["tiers"]["device"]["arena_bytes"].is_null());
  }
}

TEST_F(TuneCommandTest, RefusesWhatHasNoMeaning) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"--machine", "h100,gpus=0"},
                                                       {"--machine", "h100,gpus=3"},
                                                       {"--machine", "h100,gpus=2", "--top", "0"},
                                                       {"--machine", "h100,gpus=2", "--export", "deepspeed"},
                                                       {"--machine", "h100,gpus=2", "--export", "jax=x"},
                                                       {"--machine", "h100,gpus=2", "--offload-optimizer", "cpu"},
                                                       {"--machine", "h100,gpus=2", "--micro-batch", "3"},
                                                       {"--machine", "h100,gpus=2", "--budget", "nan"},
                                                       {"--machine", "h100,gpus=2", "--framework", "fsdp2", "-o", "x"}};
  for (const auto& flags : wrong) EXPECT_THROW(tune(flags), Error) << (flags.empty() ? "no machine" : flags.back());
}

}  // namespace
}  // namespace zeroplan::cli
