#include "runtime/checkpoint/checkpoint_directory.h"

#include <cerrno>
#include <charconv>
#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

#include "models/core/file_io.h"
#include "models/core/text.h"

namespace zeroplan::runtime {
namespace {

namespace fs = std::filesystem;

Error directory_error(const fs::path& directory, std::string_view doing, const std::error_code& reason) {
  return Error(ErrorCode::kIo,
               fmt::format("--checkpoint-dir {}: cannot {}: {}", directory.string(), doing, reason.message()))
      .at({.key = "--checkpoint-dir", .value = directory.string()})
      .hint("name a folder on a disk with space in which this user may write");
}

/// The process number at the end of ".step-00000100.tmp4711", or nothing for other names.
std::optional<pid_t> writer_of(const std::string& name) {
  if (!name.starts_with(".step-")) return std::nullopt;
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string_view prefix = std::string_view(name).substr(0, digits);
  if (!prefix.ends_with(".tmp") && !prefix.ends_with(".old")) return std::nullopt;
  pid_t writer = 0;
  const auto [end, status] = std::from_chars(name.data() + digits, name.data() + name.size(), writer);
  return status == std::errc() && end == name.data() + name.size() && writer > 0 ? std::optional(writer) : std::nullopt;
}

bool is_running(pid_t process) {
  return ::kill(process, 0) == 0 || errno == EPERM;
}

void remove_left_overs(const fs::path& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const auto writer = writer_of(entry.path().filename().string());
    if (writer && *writer != ::getpid() && !is_running(*writer)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

Bytes checkpoint_bytes(const planner::Plan& plan) {
  const std::uint64_t states = 1 + planner::moment_count(plan.training.optimizer);
  Bytes bytes;
  for (const planner::ShardGroup& group : plan.partition.groups) bytes += group.padded * DType::kFp32 * states;
  return bytes;
}

void prepare_checkpoint_directory(const fs::path& directory, bool resume, Bytes needed) {
  std::error_code reason;
  fs::create_directories(directory, reason);
  if (reason) throw directory_error(directory, "create it", reason);
  if (!resume && fs::exists(directory / "latest", reason)) {
    throw Error(ErrorCode::kUsage,
                fmt::format("--checkpoint-dir {}: it holds checkpoints of an earlier run", directory.string()))
        .at({.key = "--checkpoint-dir", .value = directory.string()})
        .hint("go on from them with --resume, or name another folder");
  }
  const fs::path probe = directory / fmt::format(".probe{}", ::getpid());
  try {
    write_file_atomically(probe, "");
  } catch (const Error&) {
    throw directory_error(directory, "write in it", std::make_error_code(std::errc::permission_denied));
  }
  fs::remove(probe, reason);
  remove_left_overs(directory);
  const fs::space_info space = fs::space(directory, reason);
  if (!reason && space.available < needed.count()) {
    throw Error(ErrorCode::kIo,
                fmt::format("--checkpoint-dir {}: a checkpoint takes {}, the disk has {} free", directory.string(),
                            format_size(needed), format_size(Bytes(space.available))))
        .at({.key = "--checkpoint-dir", .value = directory.string()})
        .hint("free space, or name a folder on another disk");
  }
}

}  // namespace zeroplan::runtime
