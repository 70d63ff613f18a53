// A file mapped into memory to be read. Main type: MappedFile.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace zeroplan::runtime {

class MappedFile {
 public:
  /// \throws Error{kIo} if it cannot be opened or is no regular file
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return size_; }
  template <class T>
  std::span<const T> as() const {
    return {static_cast<const T*>(data_), size_ / sizeof(T)};
  }

 private:
  std::filesystem::path path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace zeroplan::runtime
