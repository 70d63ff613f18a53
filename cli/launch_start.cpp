#include "cli/launch_start.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/features.h"
#include "models/core/text.h"
#include "planner/plan_json.h"

namespace zeroplan::cli {
namespace {

namespace ds = planner::deepspeed;

constexpr int kNotStarted = 127;

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) ::sigaddset(&set, signal);
  return set;
}

[[noreturn]] void become(const ds::LaunchLine& line, const std::vector<char*>& argv, const sigset_t& old_mask) {
  ::sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  for (const auto& [key, value] : line.environment) ::setenv(key.c_str(), value.c_str(), 1);
  // In a group of its own the launcher does not get the terminal's Ctrl-C, on which it would kill the ranks before they
  // could save. Such a group must not read the terminal.
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::execvp(argv.front(), argv.data());
  const std::string message = fmt::format("zeroplan: cannot start {}: {}\n", argv.front(), std::strerror(errno));
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  ::_exit(kNotStarted);
}

/// Waits for the child. The first SIGINT or SIGTERM goes to it as SIGUSR1, which mpirun and srun hand on to the ranks:
/// these end their step and save. Later ones go to it as they are.
int wait_for(pid_t child, const sigset_t& watched) {
  bool was_asked = false;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (ended < 0 && errno != EINTR) {
      throw Error(ErrorCode::kIo, fmt::format("cannot wait for the launcher: {}", std::strerror(errno)));
    }
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&watched, &info);
    if (signal != SIGTERM && signal != SIGINT) continue;
    ::kill(child, was_asked ? signal : SIGUSR1);
    was_asked = true;
  }
}

}  // namespace

PlannedRun planned_run(const std::vector<std::string>& command) {
  if (command.size() < 2 || command[1].starts_with("-")) {
    throw Error(ErrorCode::kUsage, fmt::format("launch -- {}: expected the plan after it", command.front()))
        .hint("zeroplan launch ... -- train plan.json --data tokens.bin");
  }
  const planner::Plan plan = planner::load_plan(command[1]);
  return {plan.training.gpus, plan.training.comm, plan.training.backend};
}

void check_start(const PlannedRun& plan, const ds::Resources& resources) {
  const std::string comm(planner::name_of(plan.comm));
  if (resources.world_size() != plan.ranks) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the resources are {} ranks, the plan is for {}", resources.world_size(), plan.ranks))
        .hint(fmt::format("choose {} slots, or make a plan with --gpus {}", plan.ranks, resources.world_size()));
  }
  if (plan.comm == planner::CommKind::kLoopback) {
    if (resources.hosts.size() == 1) return;
    throw Error(
        ErrorCode::kUsage,
        fmt::format("the plan's comm is loopback, whose ranks are threads of one process, but {} hosts are named",
                    resources.hosts.size()))
        .hint("make a plan with --comm mpi, or name one host");
  }
  const Features features = built_in_features();
  const bool has_it = plan.comm == planner::CommKind::kMpi ? features.mpi : features.nccl;
  if (!has_it) {
    throw Error(ErrorCode::kUnsupported, fmt::format("the plan's comm is {}, which this build does not have", comm))
        .hint("make a plan with --comm loopback, whose ranks are threads of one process on one host");
  }
}

int run_line(const ds::LaunchLine& line) {
  std::vector<char*> argv;
  for (const std::string& word : line.argv)
    argv.push_back(const_cast<char*>(word.c_str()));  // exec does not write to them
  argv.push_back(nullptr);
  const sigset_t watched = watched_signals();
  sigset_t old_mask;
  ::sigprocmask(SIG_BLOCK, &watched, &old_mask);
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorCode::kIo, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) become(line, argv, old_mask);
  const int code = wait_for(child, watched);
  ::sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  if (code == kNotStarted) {
    throw Error(ErrorCode::kIo, fmt::format("{} could not be started", line.argv.front()))
        .hint(line.argv.front() == "srun" ? "run this where Slurm is installed, or use --launcher mpirun"
                                          : "install Open MPI; on one host `zeroplan train` needs no launcher");
  }
  return code;
}

}  // namespace zeroplan::cli
