#include "cli/launch_start.h"

#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

namespace zeroplan::cli {
namespace {

namespace ds = planner::deepspeed;

ds::LaunchLine line_of(std::vector<std::string> argv) {
  ds::LaunchLine line;
  line.argv = std::move(argv);
  return line;
}

ds::Resources hosts_of(std::vector<ds::HostSlots> hosts) {
  ds::Resources resources;
  resources.hosts = std::move(hosts);
  return resources;
}

TEST(LaunchStart, HasTheExitCodeOfTheChild) {
  EXPECT_EQ(run_line(line_of({"true"})), 0);
  EXPECT_EQ(run_line(line_of({"sh", "-c", "exit 3"})), 3);
  EXPECT_EQ(run_line(line_of({"sh", "-c", "kill -9 $$"})), 128 + 9);
  EXPECT_THROW(run_line(line_of({"no-such-launcher-anywhere"})), Error);
}

TEST(LaunchStart, TheChildGetsTheEnvironmentOfItsRanks) {
  ds::LaunchLine line = line_of({"sh", "-c", "test \"$ZEROPLAN_LAUNCH_TEST\" = 'a b'"});
  line.environment = {{"ZEROPLAN_LAUNCH_TEST", "a b"}};
  EXPECT_EQ(run_line(line), 0);
  EXPECT_EQ(::getenv("ZEROPLAN_LAUNCH_TEST"), nullptr);
}

TEST(LaunchStart, TheFirstSignalAsksTheChildToSaveAndTheNextGoesOnAsItIs) {
  const std::string again = "kill -TERM " + std::to_string(::getpid());
  const std::string loop = again + "; while :; do sleep 0.01; done";
  EXPECT_EQ(run_line(line_of({"sh", "-c", "trap 'exit 7' USR1; " + loop})), 7);
  EXPECT_EQ(run_line(line_of({"sh", "-c", "trap '" + again + "' USR1; trap 'exit 8' TERM; " + loop})), 8);
}

TEST(LaunchStart, RefusesResourcesThatAreNotThePlans) {
  const PlannedRun threads{2, planner::CommKind::kLoopback, planner::BackendKind::kCpu};
  check_start(threads, hosts_of({{"localhost", {0, 1}}}));
  EXPECT_THROW(check_start(threads, hosts_of({{"localhost", {0}}})), Error);
  EXPECT_THROW(check_start(threads, hosts_of({{"a", {0}}, {"b", {0}}})), Error);
}

TEST(LaunchLine, RanksThatAreThreadsAreOneProcess) {
  ds::LaunchRequest request;
  request.program = "zeroplan";
  request.arguments = {"train", "plan.json"};
  request.processes_per_host_is_one = true;
  const ds::LaunchLine line = ds::make_launch_line(hosts_of({{"localhost", {0, 1, 2}}}), request);
  EXPECT_EQ(line.world_size, 3u);
  EXPECT_EQ(line.to_text(),
            "mpirun --oversubscribe --bind-to none -np 1 -x CUDA_VISIBLE_DEVICES=0,1,2 zeroplan train plan.json");
}

}  // namespace
}  // namespace zeroplan::cli
