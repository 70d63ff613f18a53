#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/safetensors.h"

namespace zeroplan::models {
namespace {

Error io_error(const std::filesystem::path& path, std::string_view doing, std::string_view why) {
  return Error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), doing, why))
      .at({.file = path.string()})
      .hint("check the path, its permissions and the disk");
}

void read_at(int descriptor, std::uint64_t offset, std::span<std::byte> target, const std::filesystem::path& path) {
  while (!target.empty()) {
    const ssize_t n = ::pread(descriptor, target.data(), target.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw io_error(path, "read", std::strerror(errno));
    if (n == 0) throw io_error(path, "read", "the file ends too early");
    offset += static_cast<std::uint64_t>(n);
    target = target.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw io_error(path, "open", std::strerror(errno));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw io_error(path, "read", std::strerror(errno));
    if (!S_ISREG(status.st_mode)) throw io_error(path, "read", "it is no regular file");
    const auto file_size = static_cast<std::uint64_t>(status.st_size);
    const auto too_short = [&](std::uint64_t needed, std::string_view what) {
      return Error(ErrorCode::kInvalidInput, fmt::format("{} has {} bytes, expected at least {} for its {}",
                                                         path.string(), file_size, needed, what))
          .at({.file = path.string()})
          .hint("the file is damaged or no safetensors file; download or write it again");
    };
    if (file_size < detail::kHeaderLengthBytes) throw too_short(detail::kHeaderLengthBytes, "header length");
    unsigned char raw[detail::kHeaderLengthBytes];
    read_at(descriptor_, 0, std::as_writable_bytes(std::span(raw)), path);
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < detail::kHeaderLengthBytes; ++i) length |= std::uint64_t{raw[i]} << (8 * i);
    if (length > detail::kMostHeaderBytes || length > file_size - detail::kHeaderLengthBytes) {
      throw too_short(length > detail::kMostHeaderBytes ? length : detail::kHeaderLengthBytes + length, "header");
    }
    std::string text(length, '\0');
    read_at(descriptor_, detail::kHeaderLengthBytes, std::as_writable_bytes(std::span(text)), path);
    tensors_ = detail::parse_safetensors_header(text, file_size, path.string(), metadata_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::close(descriptor_);
}

void SafetensorsFile::read(const TensorEntry& tensor, Bytes offset, std::span<std::byte> target) const {
  ZP_CHECK(offset <= tensor.size && target.size() <= (tensor.size - offset).count());
  read_at(descriptor_, (tensor.offset + offset).count(), target, path_);
}

}  // namespace zeroplan::models
