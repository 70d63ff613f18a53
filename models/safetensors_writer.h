// Writing safetensors. Purpose: weights that transformers loads, in one file or in shards with an index; a reader sees
// the whole result or nothing, also after a crash or on a full disk. Main functions: write_safetensors_file,
// write_safetensors_folder. Must not depend on a family or on planner.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/shape.h"
#include "models/core/units.h"

namespace zeroplan::models {

struct TensorToWrite {
  std::string name;
  DType type = DType::kFp32;
  Shape shape;
  Bytes size() const { return shape.elements() * type; }
};

/// Fills `target` with the bytes from `offset` on of tensor number `tensor` (little-endian, row-major). Called in
/// order, with pieces of at most kWritePiece, so that a writer needs no copy of the model.
using FillTensor = std::function<void(std::size_t tensor, Bytes offset, std::span<std::byte> target)>;
inline constexpr Bytes kWritePiece{std::uint64_t{8} << 20};

/// Writes one file beside `path`, flushes it to the disk and renames it. The metadata is {"format": "pt"}.
/// \throws Error{kIo} (then `path` is unchanged), Error{kInvalidInput} for a name that is there twice, and what `fill`
/// throws.
void write_safetensors_file(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                            const FillTensor& fill);

/// Writes a new folder: model.safetensors, or shards of at most `shard_size` (a tensor is never split) with
/// model.safetensors.index.json; and `other_files` (name to content, such as config.json). All in a temporary folder
/// beside it, flushed, then renamed. \throws Error{kUsage} if `folder` exists and is not empty; else as above.
void write_safetensors_folder(const std::filesystem::path& folder, std::span<const TensorToWrite> tensors,
                              const FillTensor& fill, Bytes shard_size,
                              const std::map<std::string, std::string>& other_files);

/// Indices of the tensors of each shard: in order, a new one where the next tensor would exceed `shard_size`.
std::vector<std::vector<std::size_t>> split_in_shards(std::span<const TensorToWrite> tensors, Bytes shard_size);

}  // namespace zeroplan::models
