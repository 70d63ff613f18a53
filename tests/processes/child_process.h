// Processes of the program for tests. Main type: ChildProcess.
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zeroplan::testing {

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One process with its output in files. Ends, killed if need be, with this object.
class ChildProcess {
 public:
  /// \param words  program and arguments. \param variables  added to the environment
  ChildProcess(const std::vector<std::string>& words, const std::filesystem::path& output,
               const std::map<std::string, std::string>& variables = {})
      : out_(output.string() + ".out"), err_(output.string() + ".err"), id_(::fork()) {
    if (id_ != 0) return;
    ::setpgid(0, 0);
    for (const auto& [key, value] : variables) ::setenv(key.c_str(), value.c_str(), 1);
    ::dup2(::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    ::dup2(::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~ChildProcess() {
    if (is_over_) return;
    ::kill(-id_, SIGKILL);
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  std::string out() const { return content_of(out_); }
  std::string err() const { return content_of(err_); }

  /// \returns whether it ended in that time
  bool ends_within(std::chrono::seconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!is_over_) {
      is_over_ = ::waitpid(id_, &status_, WNOHANG) == id_;
      if (std::chrono::steady_clock::now() > deadline) break;
      if (!is_over_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return is_over_;
  }
  /// 128 + signal if one ended it; -1 while it runs.
  int code() const {
    if (!is_over_) return -1;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  std::string out_;
  std::string err_;
  pid_t id_;
  int status_ = 0;
  bool is_over_ = false;
};

/// Processes that this one started, as the system lists them.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task")) {
    std::istringstream list(content_of(task.path() / "children"));
    for (pid_t child = 0; list >> child;) found.push_back(child);
  }
  return found;
}

}  // namespace zeroplan::testing
