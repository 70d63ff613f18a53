// From resources to the line that starts a run: mpirun or srun, with the environment of its ranks. Main types:
// LaunchRequest, LaunchLine. Depends on models/core only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "planner/deepspeed/hostfile.h"

namespace zeroplan::planner::deepspeed {

enum class Launcher { kMpirun, kSlurm };
/// "mpirun" or "slurm". \throws Error{kUsage}
Launcher parse_launcher(const std::string& text);

struct LaunchRequest {
  Launcher launcher = Launcher::kMpirun;
  std::string program;                             ///< this program, as it should be started on each host
  std::vector<std::string> arguments;              ///< "train", the plan, its flags
  std::map<std::string, std::string> environment;  ///< of the caller: what may be passed on
  std::vector<std::pair<std::string, std::string>> environment_file;  ///< assignments of the environment file
  bool processes_per_host_is_one = false;  ///< the ranks of a host are threads of one process (comm loopback)
  bool as_root = false;                    ///< mpirun refuses root unless told otherwise
};

struct LaunchLine {
  std::vector<HostSlots> hosts;
  std::uint64_t world_size = 0;
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  ///< what every rank gets
  std::vector<std::string> warnings;

  Json to_json() const;
  std::string to_text() const;  ///< one line for a shell
};

/// Lines KEY=VALUE; blank lines and `#` comments are skipped, values may be quoted. \throws Error{kInvalidInput} with
/// the line.
std::vector<std::pair<std::string, std::string>> parse_environment_file(std::string_view text, const std::string& file);

/// True for variables that a launcher passes on by itself: NCCL_, UCX_, PYTHON..., OMP_, ZEROPLAN_ and the like.
bool is_propagated(std::string_view name);

LaunchLine make_launch_line(const Resources& resources, const LaunchRequest& request);

/// A word as a POSIX shell needs it.
std::string shell_quoted(const std::string& word);

}  // namespace zeroplan::planner::deepspeed
