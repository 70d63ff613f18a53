#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/core/file_io.h"
#include "planner/plan_json.h"
#include "runtime/comm/mpi_session.h"
#include "runtime/comm/socket.h"
#include "tests/processes/child_process.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/tiny_models.h"

namespace zeroplan::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds kLongest{50};

const std::map<std::string, std::string>& mpi_variables() {
  // Open MPI keeps memory until its process ends, which AddressSanitizer would call leaks of ours.
  static const std::map<std::string, std::string> variables = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}, {"ASAN_OPTIONS", "detect_leaks=0"}};
  return variables;
}

bool has_mpirun() {
  return runtime::has_mpi() && std::system("mpirun --version > /dev/null 2>&1") == 0;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A folder with plans, and runs of them.
class ProcessRun : public ::testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_.path() / name; }

  /// The same plan for threads or for processes.
  std::string plan(const PlanSettings& settings, planner::CommKind comm) {
    planner::Plan made = make_test_plan(llama_config(), settings);
    made.training.comm = comm;
    made = planner::make_plan(made.model, made.machine, made.training, made.strategy);
    const fs::path path = file(fmt::format("plan{}.json", plans_++));
    write_file_atomically(path, planner::plan_to_json(made).dump());
    return path.string();
  }

  static std::vector<std::string> train(const std::string& plan, std::uint64_t steps,
                                        const std::vector<std::string>& more = {}) {
    return std::vector<std::string>{ZP_PROGRAM,  "train", plan, "--data", "random", "--steps", std::to_string(steps),
                                    "--threads", "1",     "-q"} +
           more;
  }
  static std::vector<std::string> mpirun(std::uint64_t ranks, const std::vector<std::string>& words) {
    return std::vector<std::string>{"mpirun", "--oversubscribe", "--bind-to", "none", "-n", std::to_string(ranks)} +
           words;
  }

  /// Losses and gradient norms of a log, without the times.
  std::vector<std::string> numbers(const std::string& log) const {
    std::vector<std::string> lines;
    std::istringstream text(content_of(file(log)));
    for (std::string line; std::getline(text, line);) {
      const Json step = parse_json(line, log);
      if (step.contains("loss")) lines.push_back(step["loss"].dump() + " " + step["grad_norm"].dump());
    }
    return lines;
  }

  std::vector<std::string> loopback(const PlanSettings& settings, std::uint64_t steps = 3) {
    ChildProcess run(train(plan(settings, planner::CommKind::kLoopback), steps, {"--log", file("loopback").string()}),
                     file("loopback.text"));
    EXPECT_TRUE(run.ends_within(kLongest));
    EXPECT_EQ(run.code(), 0) << run.err();
    return numbers("loopback");
  }

  /// One process a rank, without mpirun.
  std::vector<std::unique_ptr<ChildProcess>> start(std::uint64_t ranks, const std::vector<std::string>& words,
                                                   const std::string& rendezvous,
                                                   std::map<std::string, std::string> variables = {}) {
    std::vector<std::unique_ptr<ChildProcess>> started;
    for (std::uint64_t r = 0; r < ranks; ++r) {
      variables["RANK"] = std::to_string(r);
      started.push_back(std::make_unique<ChildProcess>(words + std::vector<std::string>{"--rendezvous", rendezvous},
                                                       file(fmt::format("rank{}", r)), variables));
    }
    return started;
  }

  void expect_equal_to_loopback(const std::string& rendezvous, const std::map<std::string, std::string>& variables) {
    const PlanSettings settings{.ranks = 2, .stage = 3};
    const auto words = train(plan(settings, planner::CommKind::kMpi), 3, {"--log", file("processes").string()});
    auto ranks = start(2, words, rendezvous, variables);
    for (auto& rank : ranks) {
      EXPECT_TRUE(rank->ends_within(kLongest));
      EXPECT_EQ(rank->code(), 0) << rank->err();
    }
    EXPECT_EQ(ranks[1]->out(), "");
    EXPECT_EQ(numbers("processes"), loopback(settings));
  }

  /// Waits until a run has saved.
  bool has_saved(const std::string& folder) const {
    for (int turn = 0; turn < 2000; ++turn) {
      if (fs::exists(file(folder) / "latest")) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  void expect_whole_checkpoint(const std::string& folder) {
    ChildProcess eval({ZP_PROGRAM, "eval", file(folder).string(), "--data", "random", "--steps", "1"}, file("eval"));
    EXPECT_TRUE(eval.ends_within(kLongest));
    EXPECT_EQ(eval.code(), 0) << eval.err();
  }

  TemporaryFolder folder_;
  int plans_ = 0;
};

std::string free_port() {
  return std::to_string(runtime::Listener(0).port());
}

TEST_F(ProcessRun, MpiEqualsLoopbackAtEveryStage) {
  if (!has_mpirun()) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  for (const std::uint64_t ranks : {2, 4}) {
    for (const std::uint64_t stage : {0, 1, 2, 3}) {
      const PlanSettings settings{.ranks = ranks, .stage = stage, .accumulation = stage == 2 ? 2u : 1u};
      const auto words = train(plan(settings, planner::CommKind::kMpi), 3, {"--log", file("mpi").string()});
      ChildProcess run(mpirun(ranks, words), file("mpi.text"), mpi_variables());
      ASSERT_TRUE(run.ends_within(kLongest));
      EXPECT_EQ(run.code(), 0) << run.err();
      EXPECT_EQ(numbers("mpi"), loopback(settings)) << ranks << " ranks, stage " << stage;
    }
  }
}

TEST_F(ProcessRun, MeetsThroughAnAddress) {
  expect_equal_to_loopback("tcp:localhost:" + free_port(), {});
}

TEST_F(ProcessRun, MeetsThroughAFile) {
  write_file_atomically(file("meet"),
                        R"({"key": "of a dead run", "endpoint": {"host": "h", "addresses": [], "port": 1}})");
  expect_equal_to_loopback("file:" + file("meet").string(), {});
}

TEST_F(ProcessRun, MeetsThroughTheVariablesOfTorchrun) {
  expect_equal_to_loopback("env", {{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", free_port()}});
}

TEST_F(ProcessRun, MeetsBesideTorchrunsOwnStore) {
  const runtime::Listener store(0);  // where torchrun keeps MASTER_PORT to itself
  expect_equal_to_loopback("env", {{"WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", std::to_string(store.port())},
                                   {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                   {"TORCHELASTIC_RUN_ID", "some run"}});
}

TEST_F(ProcessRun, SaysWhoDidNotCome) {
  const std::string words = plan({.ranks = 2, .stage = 1}, planner::CommKind::kMpi);
  ChildProcess alone(
      train(words, 1, {"--rendezvous", "tcp:localhost:" + free_port(), "--rank", "0", "--rendezvous-timeout", "1"}),
      file("alone"));
  ASSERT_TRUE(alone.ends_within(kLongest));
  EXPECT_EQ(alone.code(), 2);
  EXPECT_NE(alone.err().find("rank 1 did not come"), std::string::npos) << alone.err();
}

TEST_F(ProcessRun, RefusesRanksThatWereStartedDifferently) {
  const std::string words = plan({.ranks = 2, .stage = 1}, planner::CommKind::kMpi);
  const std::string place = "tcp:localhost:" + free_port();
  ChildProcess zero(train(words, 3, {"--rendezvous", place, "--rank", "0"}), file("zero"));
  ChildProcess one(train(words, 4, {"--rendezvous", place, "--rank", "1"}), file("one"));
  ASSERT_TRUE(zero.ends_within(kLongest) && one.ends_within(kLongest));
  EXPECT_EQ(zero.code(), 2);
  EXPECT_EQ(one.code(), 1);
  EXPECT_NE(zero.err().find("--steps differs: rank 1"), std::string::npos) << zero.err();
  EXPECT_EQ(one.err(), "");
}

TEST_F(ProcessRun, EndsAllWhenARankIsKilledOrStopped) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    for (const std::uint64_t lost : {0, 2}) {
      const std::string words = plan({.ranks = 3, .stage = 3}, planner::CommKind::kMpi);
      const std::string name = fmt::format("checkpoints{}.{}", signal, lost);
      auto ranks = start(3,
                         train(words, 1'000'000,
                               {"--checkpoint-dir", file(name).string(), "--checkpoint-every", "2", "--keep", "2",
                                "--heartbeat-limit", "2"}),
                         "tcp:localhost:" + free_port());
      ASSERT_TRUE(has_saved(name));
      ::kill(ranks[lost]->id(), signal);
      const std::uint64_t speaker = lost == 0 ? 1 : 0;
      for (std::uint64_t r = 0; r < 3; ++r) {
        if (r == lost) continue;
        EXPECT_TRUE(ranks[r]->ends_within(seconds(12))) << "rank " << r;
        EXPECT_EQ(ranks[r]->code(), 1);
        EXPECT_EQ(ranks[r]->err().find(fmt::format("rank {} (host", lost)) != std::string::npos, r == speaker)
            << ranks[r]->err();
      }
      ::kill(ranks[lost]->id(), SIGKILL);
      expect_whole_checkpoint(name);
    }
  }
}

TEST_F(ProcessRun, MpiRanksEndWhenOneIsKilledOrStopped) {
  if (!has_mpirun()) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const std::string words = plan({.ranks = 2, .stage = 2}, planner::CommKind::kMpi);
    const std::string name = fmt::format("checkpoints{}", signal);
    ChildProcess run(mpirun(2, train(words, 1'000'000,
                                     {"--checkpoint-dir", file(name).string(), "--checkpoint-every", "2", "--keep", "2",
                                      "--heartbeat-limit", "2"})),
                     file("mpirun"), mpi_variables());
    ASSERT_TRUE(has_saved(name));
    const auto ranks = children_of(run.id());
    ASSERT_EQ(ranks.size(), 2u);
    ::kill(ranks[1], signal);
    EXPECT_TRUE(run.ends_within(seconds(12)));
    EXPECT_NE(run.code(), 0);
    EXPECT_NE(run.err().find("zeroplan: rank"), std::string::npos) << run.err();
    for (const pid_t rank : ranks) EXPECT_FALSE(fs::exists(fmt::format("/proc/{}/exe", rank)));
    expect_whole_checkpoint(name);
  }
}

TEST_F(ProcessRun, OneInterruptedRankMakesAllSaveTheSameStep) {
  const std::string words = plan({.ranks = 2, .stage = 3}, planner::CommKind::kMpi);
  auto ranks = start(
      2,
      train(words, 1'000'000, {"--checkpoint-dir", file("saved").string(), "--checkpoint-every", "2", "--keep", "1"}),
      "tcp:localhost:" + free_port());
  ASSERT_TRUE(has_saved("saved"));
  ::kill(ranks[1]->id(), SIGTERM);
  for (auto& rank : ranks) EXPECT_TRUE(rank->ends_within(kLongest));
  EXPECT_EQ(ranks[0]->code(), 1);
  EXPECT_NE(ranks[0]->out().find("interrupted"), std::string::npos) << ranks[0]->out();
  EXPECT_EQ(ranks[1]->code(), 0) << ranks[1]->err();
  expect_whole_checkpoint("saved");
}

TEST_F(ProcessRun, LaunchStartsThemAndHandsAnInterruptOn) {
  if (!has_mpirun()) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  const std::string words = plan({.ranks = 2, .stage = 1}, planner::CommKind::kMpi);
  auto line = train(words, 1'000'000, {"--checkpoint-dir", file("saved").string(), "--checkpoint-every", "2"});
  line.erase(line.begin());
  ChildProcess run(std::vector<std::string>{ZP_PROGRAM, "launch", "--"} + line, file("launch"));
  ASSERT_TRUE(has_saved("saved"));
  ::kill(run.id(), SIGTERM);
  EXPECT_TRUE(run.ends_within(seconds(20)));
  EXPECT_EQ(run.code(), 1);
  EXPECT_NE(run.out().find("interrupted"), std::string::npos) << run.out() << run.err();
  expect_whole_checkpoint("saved");
}

/// Where everything lies that keeps its value, without the rotary table, which grows with the sequence and lies last.
std::string persistent_layout(const planner::Plan& plan) {
  std::string text;
  for (const planner::Buffer& buffer : plan.buffers) {
    if (buffer.always && buffer.name != "rotary table")
      text += fmt::format("{} {} {}\n", buffer.name, buffer.offset.count(), buffer.bytes.count());
  }
  return text;
}

TEST_F(ProcessRun, SequenceLengthsAndEvalShareThePersistentLayout) {
  for (const std::uint64_t stage : {0, 3}) {
    const auto layout = [&](std::uint64_t seq) {
      return persistent_layout(make_test_plan(llama_config(), {.ranks = 2, .stage = stage, .seq = seq}));
    };
    EXPECT_NE(layout(16), "");
    EXPECT_EQ(layout(32), layout(16));
    EXPECT_EQ(layout(64), layout(16));
  }
  const auto with_length = [&](std::uint64_t seq) {
    return plan({.ranks = 2, .stage = 3, .seq = seq}, planner::CommKind::kLoopback);
  };
  const std::vector<std::string> saves = {"--checkpoint-dir", file("saved").string()};
  ChildProcess first(train(with_length(16), 2, saves), file("first"));
  ASSERT_TRUE(first.ends_within(kLongest));
  EXPECT_EQ(first.code(), 0) << first.err();
  ChildProcess longer(train(with_length(32), 4, saves + std::vector<std::string>{"--resume"}), file("longer"));
  ASSERT_TRUE(longer.ends_within(kLongest));
  EXPECT_EQ(longer.code(), 0) << longer.err();
  ChildProcess eval({ZP_PROGRAM, "eval", with_length(64), "--checkpoint", file("saved").string(), "--data", "random",
                     "--steps", "2", "--json"},
                    file("eval"));
  ASSERT_TRUE(eval.ends_within(kLongest));
  ASSERT_EQ(eval.code(), 0) << eval.err();
  EXPECT_EQ(parse_json(eval.out(), "eval")["tokens"], 2 * 2 * 2 * 64);  // passes, ranks, sequences, tokens
}

TEST_F(ProcessRun, ARanksMemoryIsItsArenaAndTheProcess) {
  // Four ranks at stage 3: a rank holds its shard, what is gathered at a time and the activations, never a whole model.
  PlanSettings settings{.ranks = 4, .stage = 3, .micro_batch = 1};
  Json config = llama_config();
  config["hidden_size"] = 512;
  config["intermediate_size"] = 1536;
  config["num_hidden_layers"] = 8;
  planner::Plan made = make_test_plan(config, settings);
  made.training.comm = planner::CommKind::kMpi;
  made = planner::make_plan(made.model, made.machine, made.training, made.strategy);
  const std::string path = file("large.json").string();
  write_file_atomically(path, planner::plan_to_json(made).dump());
  auto ranks =
      start(4, train(path, 1, {"--checkpoint-dir", file("saved").string(), "--json"}), "tcp:localhost:" + free_port());
  for (auto& rank : ranks) {
    ASSERT_TRUE(rank->ends_within(kLongest));
    ASSERT_EQ(rank->code(), 0) << rank->err();
  }
  const Json summary = parse_json(ranks[0]->out(), "summary")["summary"];
  std::uint64_t largest_group = 0;
  for (const planner::ShardGroup& group : made.partition.groups)
    largest_group = std::max(largest_group, (group.padded * DType::kFp32).count());
  const std::uint64_t arena = made.tier(planner::Tier::kDevice).arena.count();
  const std::uint64_t whole_states = made.model.total().count() * 12;
  // The program itself with its libraries and threads: measured 11 MiB.
  constexpr std::uint64_t kProcess = std::uint64_t{24} << 20;
  ASSERT_LT(arena + largest_group + kProcess, whole_states);
  for (const Json& rank : summary["ranks"]) {
    EXPECT_LT(rank["resident_peak_bytes"].get<std::uint64_t>(), arena + largest_group + kProcess) << rank.dump();
    EXPECT_GT(rank["resident_peak_bytes"].get<std::uint64_t>(), arena);
  }
}

}  // namespace
}  // namespace zeroplan::testing
