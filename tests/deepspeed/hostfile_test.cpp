#include "planner/deepspeed/hostfile.h"

#include <gtest/gtest.h>

#include "planner/deepspeed/launch_line.h"

namespace zeroplan::planner::deepspeed {
namespace {

using Slots = std::vector<std::uint64_t>;
const std::vector<Host> kPool = {{"worker-0", 2}, {"user@10.0.0.1", 4}, {"worker-1", 2}};

TEST(Hostfile, ReadsHostsCommentsAndUsers) {
  const auto hosts = parse_hostfile("# all\nworker-0 slots=8\n\n  root@192.0.2.1\tslots=2 # two\r\n", "h");
  EXPECT_EQ(hosts, (std::vector<Host>{{"worker-0", 8}, {"root@192.0.2.1", 2}}));
}

TEST(Hostfile, NamesTheBadLine) {
  for (const char* wrong :
       {"a slots=1\nb lots=8", "a slots=1\nb", "a slots=1\nb slots=", "a slots=1\nb slots=4x", "a slots=1\nb slots=0",
        "a slots=1\na slots=2", "a slots=1\nb slots=99999999999999999999", "a slots=1\nb slots=-1"}) {
    try {
      parse_hostfile(wrong, "hosts");
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.place().line, 2u) << wrong;
    }
  }
  EXPECT_THROW(parse_hostfile("# nothing\n", "hosts"), Error);
}

TEST(ResourceFilter, IncludeTakesWholeHostsAndSlotsInPoolOrder) {
  const auto hosts = include_hosts(kPool, "worker-1@worker-0:1,1,0@user@10.0.0.1:3,2");
  EXPECT_EQ(hosts, (std::vector<HostSlots>{{"worker-0", {0, 1}}, {"user@10.0.0.1", {2, 3}}, {"worker-1", {0, 1}}}));
}

TEST(ResourceFilter, ExcludeDropsSlotsAndEmptyHosts) {
  const auto hosts = exclude_hosts(kPool, "worker-0@user@10.0.0.1:0,3");
  EXPECT_EQ(hosts, (std::vector<HostSlots>{{"user@10.0.0.1", {1, 2}}, {"worker-1", {0, 1}}}));
}

TEST(ResourceFilter, RefusesUnknownHostsAndSlots) {
  for (const char* wrong :
       {"worker-9", "worker-0:2", "worker-0:x", "worker-0:", "worker-0:1,", "@worker-0", "worker-0@", "worker-0:-1"}) {
    EXPECT_THROW(include_hosts(kPool, wrong), Error) << wrong;
    EXPECT_THROW(exclude_hosts(kPool, wrong), Error) << wrong;
  }
}

TEST(Resources, FiltersAndCountsExcludeEachOther) {
  EXPECT_THROW(resolve_pool(kPool, {"worker-0", "worker-1", {}, {}}), Error);
  EXPECT_THROW(resolve_pool(kPool, {"worker-0", "", 1, {}}), Error);
  EXPECT_THROW(resolve_pool(kPool, {"", "worker-0", {}, 1}), Error);
  EXPECT_THROW(resolve_pool(kPool, {"", "", 4, {}}), Error);
  EXPECT_THROW(resolve_pool(kPool, {"", "", {}, 3}), Error);
  EXPECT_THROW(resolve_pool(kPool, {"", "", 0, {}}), Error);
  EXPECT_EQ(resolve_pool(kPool, {"", "", 2, 2}).world_size(), 4u);
}

TEST(Resources, VisibleDevicesAreAPhysicalChoice) {
  EXPECT_EQ(resolve_local(2, "0,2", {}).hosts, (std::vector<HostSlots>{{"localhost", {0, 2}}}));
  const Resources overruled = resolve_local(8, "2,4,5,7", {"", "", {}, 4});
  EXPECT_EQ(overruled.hosts.front().slots, (Slots{0, 1, 2, 3}));
  ASSERT_EQ(overruled.warnings.size(), 1u);
  EXPECT_NE(overruled.warnings.front().find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  EXPECT_THROW(resolve_local(8, std::nullopt, {"", "", 2, {}}), Error);
  EXPECT_THROW(resolve_local(0, std::nullopt, {}), Error);
  EXPECT_THROW(resolve_local(8, "GPU-x", {}), Error);
}

TEST(LaunchLine, MpirunGivesEachHostItsCards) {
  Resources resources;
  resources.hosts = {{"a", {1}}, {"u@b", {0, 2}}};
  LaunchRequest request;
  request.program = "zeroplan";
  request.arguments = {"train", "plan.json"};
  request.environment = {{"NCCL_DEBUG", "INFO"}, {"SECRET", "x"}};
  request.environment_file = {{"MY_SETTING", "a b"}};
  const LaunchLine line = make_launch_line(resources, request);
  EXPECT_EQ(line.world_size, 3u);
  EXPECT_EQ(line.environment, (std::map<std::string, std::string>{{"NCCL_DEBUG", "INFO"}, {"MY_SETTING", "a b"}}));
  EXPECT_EQ(line.to_text(),
            "mpirun --bind-to none -np 1 --host a:1 -x 'MY_SETTING=a b' -x NCCL_DEBUG=INFO -x CUDA_VISIBLE_DEVICES=1 "
            "zeroplan train "
            "plan.json : -np 2 --host b:2 -x 'MY_SETTING=a b' -x NCCL_DEBUG=INFO -x CUDA_VISIBLE_DEVICES=0,2 zeroplan "
            "train plan.json");
}

TEST(LaunchLine, SlurmAsksForTheTasksThatAreUsed) {
  Resources resources;
  resources.hosts = {{"worker-1", {0, 2}}};
  LaunchRequest request;
  request.launcher = Launcher::kSlurm;
  request.program = "zeroplan";
  request.arguments = {"train", "plan.json"};
  EXPECT_EQ(make_launch_line(resources, request).to_text(),
            "srun --ntasks=2 --nodes=1 --nodelist=worker-1 --ntasks-per-node=2 --export=ALL env "
            "CUDA_VISIBLE_DEVICES=0,2 zeroplan train "
            "plan.json");
}

TEST(EnvironmentFile, SkipsBlankLinesAndRefusesWhatIsNoAssignment) {
  const auto variables = parse_environment_file("# x\n\nA=1\nexport B=\"two words\"\nC=a=b\n", "env");
  EXPECT_EQ(variables,
            (std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", "two words"}, {"C", "a=b"}}));
  EXPECT_THROW(parse_environment_file("A=1\nnothing\n", "env"), Error);
  EXPECT_THROW(parse_environment_file("1A=1\n", "env"), Error);
}

}  // namespace
}  // namespace zeroplan::planner::deepspeed
