#include "runtime/data/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

Error cannot_read(const std::filesystem::path& path, int number) {
  return Error(ErrorCode::kIo, fmt::format("{}: cannot read: {}", path.string(), std::strerror(number)))
      .at({.file = path.string()})
      .hint("check the path and its permissions");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw cannot_read(path, errno);
  struct stat status {};
  int problem = ::fstat(fd, &status) != 0 ? errno : 0;
  if (problem == 0 && !S_ISREG(status.st_mode)) problem = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (problem == 0 && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data_ == MAP_FAILED) {
      problem = errno;
      data_ = nullptr;
    }
  }
  ::close(fd);
  if (problem != 0) throw cannot_read(path, problem);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace zeroplan::runtime
