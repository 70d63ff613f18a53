#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/launch_start.h"
#include "models/core/file_io.h"
#include "models/core/text.h"
#include "planner/deepspeed/launch_line.h"

extern char** environ;

namespace zeroplan::cli {
namespace {

namespace ds = planner::deepspeed;

constexpr Bytes kMostHostfile(std::uint64_t{16} << 20);

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

/// GPUs of this host as the driver lists them, without loading it; 0 without a driver.
std::uint64_t count_local_gpus() {
  std::uint64_t cards = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    static_cast<void>(entry);
    ++cards;
  }
  return cards;
}

/// The file named by ZEROPLAN_ENV_FILE, else .zeroplan_env of the home folder and then of this one; the later wins.
std::vector<std::pair<std::string, std::string>> environment_files(const std::map<std::string, std::string>& own) {
  std::vector<std::filesystem::path> paths;
  if (const auto named = own.find("ZEROPLAN_ENV_FILE"); named != own.end()) {
    const std::string text = read_file(named->second, kMostHostfile);
    return ds::parse_environment_file(text, named->second);
  }
  if (const auto home = own.find("HOME"); home != own.end())
    paths.emplace_back(std::filesystem::path(home->second) / ".zeroplan_env");
  paths.emplace_back(".zeroplan_env");
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::filesystem::path& path : paths) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    for (auto& assignment : ds::parse_environment_file(read_file(path, kMostHostfile), path.string()))
      all.push_back(std::move(assignment));
  }
  return all;
}

std::string this_program() {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::string("zeroplan") : path.string();
}

class LaunchCommand : public Command {
 public:
  std::string name() const override { return "launch"; }
  std::string description() const override {
    return "build and run the mpirun or srun line from a hostfile and filters";
  }

  void add_flags(CLI::App& app) override {
    app.add_option("--hostfile", hostfile_, "lines `[user@]host slots=N`");
    app.add_option("--include", request_.include, "hosts and slots to use: host or host:0,2, joined by @");
    app.add_option("--exclude", request_.exclude, "hosts and slots to leave out");
    app.add_option("--num-nodes", num_nodes_, "the first N hosts");
    app.add_option("--num-gpus", num_gpus_, "slots 0 to N-1 of each host");
    app.add_option("--launcher", launcher_, "mpirun or slurm (mpirun)");
    app.add_option("--local-gpus", local_gpus_, "GPUs of this host, for dry runs elsewhere");
    app.add_flag("--dry-run", dry_run_, "print the line, start nothing");
    app.add_option("COMMAND", command_, "what every rank runs: -- train PLAN ...");
    app.positionals_at_end();
  }

  Answer run(const GlobalOptions& options) override {
    const std::map<std::string, std::string> own = own_environment();
    if (command_.empty()) {
      throw Error(ErrorCode::kUsage, "launch needs the command of the ranks after --")
          .hint("zeroplan launch ... -- train plan.json --data tokens.bin");
    }
    if (command_.front() != "train" && command_.front() != "eval" && command_.front() != "generate") {
      throw Error(ErrorCode::kUsage, fmt::format("launch -- {}: expected train, eval or generate", command_.front()))
          .at({.key = "--", .value = command_.front()});
    }
    if (!num_nodes_.empty()) request_.num_nodes = parse_count(num_nodes_, "--num-nodes");
    if (!num_gpus_.empty()) request_.num_gpus = parse_count(num_gpus_, "--num-gpus");
    ds::LaunchRequest launch;
    launch.launcher = ds::parse_launcher(launcher_);
    launch.program = this_program();
    launch.arguments = command_;
    launch.environment = own;
    launch.environment_file = environment_files(own);
    launch.as_root = ::geteuid() == 0;
    if (dry_run_) {
      const ds::LaunchLine line = ds::make_launch_line(resources(own, std::nullopt), launch);
      Answer answer;
      answer.document = line.to_json();
      answer.text = text_of(line);
      return answer;
    }
    const PlannedRun plan = planned_run(command_);
    const ds::Resources chosen = resources(own, plan);
    check_start(plan, chosen);
    if (options.json) launch.arguments.emplace_back("--json");
    launch.processes_per_host_is_one = plan.comm == planner::CommKind::kLoopback;
    const ds::LaunchLine line = ds::make_launch_line(chosen, launch);
    if (!options.quiet) {
      for (const std::string& warning : line.warnings) fmt::print(stderr, "warning: {}\n", warning);
      fmt::print(stderr, "{}\n", line.to_text());
    }
    const int code = run_line(line);
    // The ranks have printed their own answer; what is left to say is the exit code.
    std::exit(code == 0 ? kExitDone : code == kExitInvalid ? kExitInvalid : kExitNo);
  }

 private:
  /// \param plan  known at a real start: without any GPU its ranks run on the CPU of this host
  ds::Resources resources(const std::map<std::string, std::string>& own, const std::optional<PlannedRun>& plan) const {
    if (!hostfile_.empty())
      return ds::resolve_pool(ds::parse_hostfile(read_file(hostfile_, kMostHostfile), hostfile_), request_);
    const auto visible = own.find("CUDA_VISIBLE_DEVICES");
    std::uint64_t cards = local_gpus_.empty() ? count_local_gpus() : parse_count(local_gpus_, "--local-gpus");
    if (plan && plan->backend == planner::BackendKind::kCpu && local_gpus_.empty()) cards = plan->ranks;
    return ds::resolve_local(cards, visible == own.end() ? std::nullopt : std::optional(visible->second), request_);
  }

  static std::string text_of(const ds::LaunchLine& line) {
    std::string text = fmt::format("{} ranks\n", line.world_size);
    for (const ds::HostSlots& host : line.hosts)
      text += fmt::format("  {}: {}\n", host.name, fmt::join(host.slots, ", "));
    for (const std::string& warning : line.warnings) text += fmt::format("warning: {}\n", warning);
    return text + line.to_text();
  }

  std::string hostfile_;
  ds::ResourceRequest request_;
  std::string num_nodes_;
  std::string num_gpus_;
  std::string launcher_ = "mpirun";
  std::string local_gpus_;
  bool dry_run_ = false;
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Command> make_launch_command() {
  return std::make_unique<LaunchCommand>();
}

}  // namespace zeroplan::cli
