#include "planner/deepspeed/launch_line.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr std::array<std::string_view, 9> kPrefixes = {"NCCL_", "UCX_", "MV2_", "PYTHON",   "MLFLOW",
                                                       "OMP_",  "KMP_", "FI_",  "ZEROPLAN_"};

bool is_local(const HostSlots& host) {
  return host.name == "localhost";
}

bool is_first_slots(const std::vector<std::uint64_t>& slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != i) return false;
  }
  return true;
}

std::string joined(const std::vector<std::uint64_t>& slots, char separator) {
  std::string text;
  for (const std::uint64_t slot : slots)
    text += (text.empty() ? "" : std::string(1, separator)) + fmt::format("{}", slot);
  return text;
}

/// mpirun's name of a host has no user; ssh takes the user from its own configuration.
std::string host_only(const std::string& name) {
  const std::size_t at = name.rfind('@');
  return at == std::string::npos ? name : name.substr(at + 1);
}

/// One application context a host, so that each host gets its own visible cards; ranks follow in this order.
std::vector<std::string> mpirun_line(const std::vector<HostSlots>& hosts, const LaunchRequest& request,
                                     const std::map<std::string, std::string>& environment) {
  std::vector<std::string> argv = {"mpirun"};
  if (request.as_root) argv.emplace_back("--allow-run-as-root");
  const bool local = hosts.size() == 1 && is_local(hosts.front());
  if (local) argv.emplace_back("--oversubscribe");
  argv.insert(argv.end(), {"--bind-to", "none"});
  bool first = true;
  for (const HostSlots& host : hosts) {
    if (!first) argv.emplace_back(":");
    first = false;
    const std::size_t processes = request.processes_per_host_is_one ? 1 : host.slots.size();
    argv.insert(argv.end(), {"-np", fmt::format("{}", processes)});
    if (!local) argv.insert(argv.end(), {"--host", fmt::format("{}:{}", host_only(host.name), processes)});
    for (const auto& [key, value] : environment) argv.insert(argv.end(), {"-x", fmt::format("{}={}", key, value)});
    argv.insert(argv.end(), {"-x", "CUDA_VISIBLE_DEVICES=" + joined(host.slots, ',')});
    argv.push_back(request.program);
    argv.insert(argv.end(), request.arguments.begin(), request.arguments.end());
  }
  return argv;
}

/// Slurm places as many tasks on each host as it has slots (--distribution=arbitrary takes the order of --nodelist).
std::vector<std::string> slurm_line(const std::vector<HostSlots>& hosts, const LaunchRequest& request,
                                    const std::map<std::string, std::string>& environment,
                                    std::vector<std::string>& warnings) {
  std::uint64_t tasks = 0;
  bool equal = true;
  const auto tasks_on = [&request](const HostSlots& host) {
    return request.processes_per_host_is_one ? std::size_t{1} : host.slots.size();
  };
  for (const HostSlots& host : hosts) {
    tasks += tasks_on(host);
    equal = equal && host.slots == hosts.front().slots;
  }
  std::vector<std::string> argv = {"srun", fmt::format("--ntasks={}", tasks)};
  const bool local = hosts.size() == 1 && is_local(hosts.front());
  if (!local) {
    std::string nodes;
    for (const HostSlots& host : hosts) {
      // With unequal hosts the list names a host once for each of its tasks.
      for (std::size_t i = 0; i < (equal ? 1 : tasks_on(host)); ++i)
        nodes += (nodes.empty() ? "" : ",") + host_only(host.name);
    }
    argv.push_back(fmt::format("--nodes={}", hosts.size()));
    argv.push_back("--nodelist=" + nodes);
    argv.push_back(equal ? fmt::format("--ntasks-per-node={}", tasks_on(hosts.front()))
                         : std::string("--distribution=arbitrary"));
  }
  std::string exports = "--export=ALL";
  for (const auto& [key, value] : environment) {
    if (value.find(',') != std::string::npos) {
      warnings.push_back(fmt::format(
          "{} has a comma in its value, which srun's --export cannot carry; it is passed on with ALL only", key));
    } else {
      exports += fmt::format(",{}={}", key, value);
    }
  }
  argv.push_back(exports);
  if (equal && !is_first_slots(hosts.front().slots)) {
    argv.insert(argv.end(), {"env", "CUDA_VISIBLE_DEVICES=" + joined(hosts.front().slots, ',')});
  } else if (!equal && !std::all_of(hosts.begin(), hosts.end(),
                                    [](const HostSlots& host) { return is_first_slots(host.slots); })) {
    warnings.emplace_back(
        "the chosen cards differ from host to host: Slurm's own GPU binding decides which card a task sees");
  }
  argv.push_back(request.program);
  argv.insert(argv.end(), request.arguments.begin(), request.arguments.end());
  return argv;
}

}  // namespace

Launcher parse_launcher(const std::string& text) {
  if (text == "mpirun") return Launcher::kMpirun;
  if (text == "slurm") return Launcher::kSlurm;
  throw Error(ErrorCode::kUsage, fmt::format("--launcher {}: expected mpirun or slurm", text))
      .at({.key = "--launcher", .value = text});
}

bool is_propagated(std::string_view name) {
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::pair<std::string, std::string>> parse_environment_file(std::string_view text,
                                                                        const std::string& file) {
  std::vector<std::pair<std::string, std::string>> assignments;
  std::uint64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    if (line.starts_with("export ")) line.remove_prefix(7);
    const std::size_t equals = line.find('=');
    const std::string_view key = line.substr(0, equals);
    const bool is_name =
        !key.empty() && std::isdigit(static_cast<unsigned char>(key.front())) == 0 &&
        std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (equals == std::string_view::npos || !is_name || line.find('\0') != std::string_view::npos) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}, line {}: {} is no KEY=VALUE", file, number, quoted_text(line.substr(0, 80))))
          .at({.file = file, .line = number});
    }
    std::string_view value = line.substr(equals + 1);
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    assignments.emplace_back(std::string(key), std::string(value));
  }
  return assignments;
}

LaunchLine make_launch_line(const Resources& resources, const LaunchRequest& request) {
  LaunchLine line;
  line.hosts = resources.hosts;
  line.world_size = resources.world_size();
  line.warnings = resources.warnings;
  for (const auto& [key, value] : request.environment) {
    if (is_propagated(key)) line.environment[key] = value;
  }
  for (const auto& [key, value] : request.environment_file) line.environment[key] = value;
  line.environment.erase("CUDA_VISIBLE_DEVICES");  // set for each host
  line.argv = request.launcher == Launcher::kMpirun ? mpirun_line(line.hosts, request, line.environment)
                                                    : slurm_line(line.hosts, request, line.environment, line.warnings);
  return line;
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_=./:,@%+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string LaunchLine::to_text() const {
  std::string text;
  for (const std::string& word : argv) text += (text.empty() ? "" : " ") + shell_quoted(word);
  return text;
}

Json LaunchLine::to_json() const {
  Json listed = Json::array();
  for (const HostSlots& host : hosts) listed.push_back({{"name", host.name}, {"slots", host.slots}});
  Json variables = Json::object();
  for (const auto& [key, value] : environment) variables[key] = value;
  return {{"hosts", listed}, {"world_size", world_size}, {"argv", argv}, {"env", variables}, {"warnings", warnings}};
}

}  // namespace zeroplan::planner::deepspeed
