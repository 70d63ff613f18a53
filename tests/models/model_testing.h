// Helpers of the tests of models: configs from text, temporary folders.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "models/core/json.h"
#include "models/load_model.h"

namespace zeroplan::models {

/// The model of a config given as text.
inline Model model_of(const std::string& config) {
  return build_model(parse_json(config, "config.json"), "config.json");
}

/// The error that `action` throws; a test failure if it throws none.
template <class Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, "no error");
}

/// A folder that is removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zeroplan-models-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error(ErrorCode::kIo, "cannot create a temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file and gives its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace zeroplan::models
