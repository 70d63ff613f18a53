#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/commands.h"
#include "models/core/file_io.h"

namespace zeroplan::cli {
namespace {

class PackCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("zeroplan_pack_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    write_file_atomically(input(), "id,lower,upper,size\na,0,4,6\nb,2,6,4\nc,4,8,6\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string input() const { return (folder_ / "in.csv").string(); }
  std::string output() const { return (folder_ / "out.csv").string(); }

  static Answer pack(std::vector<std::string> arguments) {
    const auto command = make_pack_command();
    CLI::App app;
    command->add_flags(app);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    app.parse(arguments);
    return command->run({});
  }

  std::filesystem::path folder_;
};

TEST_F(PackCommandTest, AnswersWithTheKeysOfTheContractAndWritesOffsets) {
  const Answer answer = pack({input(), "--capacity", "10", "-o", output()});
  EXPECT_EQ(answer.exit_code, kExitDone);
  EXPECT_EQ(answer.document.at("file"), input());
  EXPECT_EQ(answer.document.at("buffers"), 3);
  EXPECT_EQ(answer.document.at("capacity"), 10);
  EXPECT_EQ(answer.document.at("packed"), true);
  EXPECT_EQ(answer.document.at("height"), 10);
  EXPECT_EQ(answer.document.at("lower_bound"), 10);
  EXPECT_TRUE(answer.document.at("elapsed_ms").is_number());
  ASSERT_EQ(answer.document.at("offsets").size(), 3u);
  EXPECT_EQ(answer.document.at("offsets")[1].at("id"), "b");
  EXPECT_TRUE(answer.document.at("offsets")[1].at("offset").is_number_unsigned());
  const std::string written = read_file(output(), Bytes(1000));
  EXPECT_TRUE(written.starts_with("id,lower,upper,size,offset\na,0,4,6,"));
}

TEST_F(PackCommandTest, SaysNoWithoutWritingAnything) {
  const Answer answer = pack({input(), "--capacity", "9", "-o", output()});
  EXPECT_EQ(answer.exit_code, kExitNo);
  EXPECT_EQ(answer.document.at("packed"), false);
  EXPECT_EQ(answer.document.at("proven_infeasible"), true);
  EXPECT_TRUE(answer.document.at("offsets").empty());
  EXPECT_FALSE(std::filesystem::exists(output()));
}

TEST_F(PackCommandTest, RejectsFlagsWithoutMeaning) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--capacity", "-5"},
                                                {"--capacity", "many"},
                                                {"--capacity", "9", "--alignment", "0"},
                                                {"--capacity", "9", "--time-limit", "-1"},
                                                {"--capacity", "9", "--time-limit", "nan"}}) {
    std::vector<std::string> arguments = {input()};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    try {
      pack(arguments);
      ADD_FAILURE() << wrong.back() << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage) << wrong.back();
    }
  }
}

TEST_F(PackCommandTest, NamesAFileThatIsMissing) {
  try {
    pack({(folder_ / "none.csv").string(), "--capacity", "9"});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kIo);
  }
}

}  // namespace
}  // namespace zeroplan::cli
