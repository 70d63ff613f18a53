#include "models/core/file_io.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace zeroplan {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error io_error(const std::filesystem::path& path, std::string_view doing, int number) {
  return Error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(number)))
      .at({.file = path.string()})
      .hint("check the path, its permissions and the space on its disk");
}

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw io_error(path, "write", n < 0 ? errno : ENOSPC);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

void flush_folder(const std::filesystem::path& folder) {
  const Descriptor fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) ::fsync(fd.get());
}

}  // namespace

std::string read_file(const std::filesystem::path& path, Bytes most) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw io_error(path, "open", errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw io_error(path, "read", errno);
  if (!S_ISREG(status.st_mode)) throw io_error(path, "read", S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > most.count()) {
    throw Error(ErrorCode::kIo, fmt::format("{} has {} bytes, expected at most {}", path.string(), size, most.count()))
        .at({.file = path.string()});
  }
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(fd.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw io_error(path, "read", errno);
    if (n == 0) break;  // the file became shorter while it was read
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);
  return content;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp{}", ::getpid());
  try {
    const Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd.get() < 0) throw io_error(path, "create", errno);
    write_all(fd.get(), content, path);
    if (::fsync(fd.get()) != 0) throw io_error(path, "flush", errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw io_error(path, "rename the finished file to", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  flush_folder(path.parent_path());
}

}  // namespace zeroplan
