// A file that is written once, front to back. Main type: OutputFile.
#pragma once

#include <filesystem>
#include <span>

#include "models/core/units.h"

namespace zeroplan::runtime {

/// \throws Error{kIo} from everything, with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> data);
  Bytes written() const { return written_; }
  /// Flushes to the disk and closes.
  void finish();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  Bytes written_;
};

/// Flushes a folder's entries to the disk.
void flush_folder(const std::filesystem::path& folder);

}  // namespace zeroplan::runtime
