#include "runtime/checkpoint/output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace zeroplan::runtime {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view doing, int number) {
  throw Error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(number)))
      .at({.file = path.string()})
      .hint("check the path, its permissions and the space on its disk; the checkpoint before is whole");
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail(path_, "create", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n = ::write(descriptor_, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(path_, "write", n < 0 ? errno : ENOSPC);
    data = data.subspan(static_cast<std::size_t>(n));
    written_ += Bytes(static_cast<std::uint64_t>(n));
  }
}

void OutputFile::finish() {
  if (::fsync(descriptor_) != 0) fail(path_, "flush", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(path_, "close", errno);
}

void flush_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(folder, "open", errno);
  const int result = ::fsync(fd);
  const int number = errno;
  ::close(fd);
  // Some file systems cannot flush a folder; the rename is atomic there all the same.
  if (result != 0 && number != EINVAL) fail(folder, "flush", number);
}

}  // namespace zeroplan::runtime
