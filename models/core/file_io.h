// Whole files in and out. Purpose: bounded reads, and writes that leave the old file or the new one, never half of one.
// Depends on models/core only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "models/core/units.h"

namespace zeroplan {

/// The content of a regular file. \throws Error{kIo} if it is missing, no file, unreadable, or larger than `most`.
std::string read_file(const std::filesystem::path& path, Bytes most);

/// Writes a temporary file beside `path`, flushes it to the disk and renames it. \throws Error{kIo}; then `path` is
/// unchanged.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace zeroplan
