// Safetensors files. Purpose: read names, types, shapes and data of files that may be broken or hostile, and write
// files that transformers loads. Main types: SafetensorsFile, TensorIndex, SafetensorsWriter. Must not depend on a
// family or on planner. Format: 8 bytes little-endian header length, a JSON header {"name": {"dtype", "shape",
// "data_offsets": [begin, end]}}, data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/shape.h"
#include "models/core/units.h"

namespace zeroplan::models {

/// One tensor of a file, as its header states it. Types that no runtime here computes with (8-bit floats, packed 4-bit)
/// keep their name in `dtype_name` and have `dtype` empty.
struct TensorEntry {
  std::string name;
  std::string dtype_name;  ///< "F32", "BF16", "F8_E4M3", ...
  std::optional<DType> dtype;
  Shape shape;
  Bytes offset;  ///< from the start of the file
  Bytes size;
};

/// An open file: header checked once, data read on demand. Reading is safe from several threads.
class SafetensorsFile {
 public:
  /// \throws Error{kIo} if it cannot be read; Error{kInvalidInput} if it is shorter than its header says, if the header
  /// is no
  ///   JSON object of that form, names a tensor twice, has a shape whose bytes overflow or differ from its range,
  ///   ranges beyond the file, that overlap, or that leave bytes unused.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// In the order of their data.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Reads target.size() bytes of a tensor, from `offset` within it. \throws Error{kIo}; Error{kInternal} beyond the
  /// tensor.
  void read(const TensorEntry& tensor, Bytes offset, std::span<std::byte> target) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The tensors of a model: one file, or the files that a model.safetensors.index.json names.
class TensorIndex {
 public:
  struct Found {
    const SafetensorsFile* file = nullptr;
    const TensorEntry* entry = nullptr;
  };

  /// \param source  a .safetensors file, its index (.json), or a folder with model.safetensors or
  /// model.safetensors.index.json. \throws as SafetensorsFile; Error{kInvalidInput} for an index whose map disagrees
  /// with the files, whose file names leave the
  ///   folder, or for a tensor that is in two files.
  static TensorIndex open(const std::filesystem::path& source);
  /// True if `open` would find something in this folder.
  static bool exists_in(const std::filesystem::path& folder);

  /// The tensor; both pointers null if there is none of this name.
  Found find(std::string_view name) const;
  /// All, file by file.
  std::vector<Found> all() const;

 private:
  void add(const std::filesystem::path& path);
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Found, std::less<>> by_name_;
};

/// The name of a type in a safetensors header: "F32", "BF16", ...
std::string_view safetensors_name(DType type);
std::optional<DType> parse_safetensors_dtype(std::string_view name);
/// Bits of one element of any type of the format, 0 if the name is not known.
std::uint64_t safetensors_bits(std::string_view name);

namespace detail {
/// Parses and checks a header. \param file_size  of the whole file; `text` stands at [8, 8 + text.size()).
/// Split from the file so that hostile headers can be tested without one.
std::vector<TensorEntry> parse_safetensors_header(std::string_view text, std::uint64_t file_size,
                                                  const std::string& file,
                                                  std::map<std::string, std::string>& metadata);
/// The longest header that is read.
inline constexpr std::uint64_t kHeaderLengthBytes = 8;          ///< the header's length, before it
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the reference implementation's limit
}  // namespace detail

}  // namespace zeroplan::models
