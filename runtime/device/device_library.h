// Finds the library that drives GPUs. Purpose: everything but training on a GPU works without it, and who misses it
// learns in one line why it is not there. Main types: DeviceLibrary. Depends on kernels/device.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace zeroplan::runtime {

/// The plug-in, or why there is none. Once opened it stays open until the process ends.
class DeviceLibrary {
 public:
  /// Opens the first of `paths` that exists.
  explicit DeviceLibrary(const std::vector<std::filesystem::path>& paths);

  /// Beside the program, and in ../lib of the program's folder.
  static std::vector<std::filesystem::path> usual_paths();

  bool is_open() const { return plugin_ != nullptr; }
  /// One line; empty if it is open.
  const std::string& why_not() const { return why_not_; }
  const std::filesystem::path& path() const { return path_; }
  /// \throws Error{kDevice}: no library, no card, a driver that is too old
  std::unique_ptr<kernels::Device> open_device(const kernels::DeviceOptions& options) const;

 private:
  const kernels::DevicePlugin* plugin_ = nullptr;
  std::string why_not_;
  std::filesystem::path path_;
};

}  // namespace zeroplan::runtime
