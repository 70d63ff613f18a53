#include "models/safetensors_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/core/file_io.h"
#include "models/core/json.h"
#include "models/safetensors.h"

namespace zeroplan::models {
namespace {

namespace fs = std::filesystem;

Error io_error(const fs::path& path, std::string_view doing, int number) {
  return Error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(number)))
      .at({.file = path.string()})
      .hint("check the path, its permissions and the space on its disk");
}

/// A file that is being written; closes itself.
class OutputFile {
 public:
  explicit OutputFile(const fs::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw io_error(path, "create", errno);
  }
  ~OutputFile() { ::close(descriptor_); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw io_error(path_, "write", n < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void flush() {
    if (::fsync(descriptor_) != 0) throw io_error(path_, "flush", errno);
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
};

void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Large element types first, so that every tensor stands at a multiple of its element size.
std::vector<std::size_t> order_of_data(std::span<const TensorToWrite> tensors, std::vector<std::size_t> indices) {
  std::stable_sort(indices.begin(), indices.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(tensors[a].type) > size_of(tensors[b].type); });
  return indices;
}

std::string header_of(std::span<const TensorToWrite> tensors, const std::vector<std::size_t>& order) {
  nlohmann::json header;  // sorted: Json would look each new name up among all
  header["__metadata__"] = {{"format", "pt"}};
  Bytes position;
  for (const std::size_t i : order) {
    const Bytes end = position + tensors[i].size();
    header[tensors[i].name] = {{"dtype", safetensors_name(tensors[i].type)},
                               {"shape", tensors[i].shape.extents()},
                               {"data_offsets", {position.count(), end.count()}}};
    position = end;
  }
  std::string text = header.dump();
  constexpr std::size_t kAlignment = 8;
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string length(sizeof(std::uint64_t), '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xff);
  return length + text;
}

void write_tensors(const fs::path& path, std::span<const TensorToWrite> tensors,
                   const std::vector<std::size_t>& indices, const FillTensor& fill) {
  const std::vector<std::size_t> order = order_of_data(tensors, indices);
  OutputFile file(path);
  const std::string header = header_of(tensors, order);
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::byte> piece;
  for (const std::size_t i : order) {
    const Bytes size = tensors[i].size();
    for (Bytes offset; offset < size; offset += kWritePiece) {
      piece.resize(std::min(kWritePiece, size - offset).count());
      fill(i, offset, piece);
      file.write(piece);
    }
  }
  file.flush();
}

void require_unique(std::span<const TensorToWrite> tensors) {
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("tensor {} is there twice, expected once", tensor.name))
          .at({.key = tensor.name});
    }
  }
}

std::string temporary_name(const fs::path& path) {
  return path.string() + fmt::format(".tmp{}", ::getpid());
}

/// "folder/" and "folder" are one; a trailing slash would put the temporary folder inside.
fs::path without_slash(const fs::path& path) {
  return path.filename().empty() ? path.parent_path() : path;
}

void write_index(const fs::path& folder, std::span<const TensorToWrite> tensors,
                 const std::vector<std::vector<std::size_t>>& shards, const std::vector<std::string>& names) {
  nlohmann::json index;
  Bytes total;
  for (const TensorToWrite& tensor : tensors) total += tensor.size();
  index["metadata"] = {{"total_size", total.count()}};
  nlohmann::json& map = index["weight_map"] = nlohmann::json::object();
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    for (const std::size_t i : shards[shard]) map[tensors[i].name] = names[shard];
  }
  write_file_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

std::vector<std::vector<std::size_t>> split_in_shards(std::span<const TensorToWrite> tensors, Bytes shard_size) {
  std::vector<std::vector<std::size_t>> shards(1);
  Bytes filled;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!shards.back().empty() && filled + tensors[i].size() > shard_size) {
      shards.emplace_back();
      filled = Bytes();
    }
    shards.back().push_back(i);
    filled += tensors[i].size();
  }
  return shards;
}

void write_safetensors_file(const fs::path& path, std::span<const TensorToWrite> tensors, const FillTensor& fill) {
  require_unique(tensors);
  std::vector<std::size_t> all(tensors.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const fs::path temporary = temporary_name(path);
  try {
    write_tensors(temporary, tensors, all, fill);
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw io_error(path, "rename the finished file to", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  flush_folder(path.parent_path());
}

void write_safetensors_folder(const fs::path& target, std::span<const TensorToWrite> tensors, const FillTensor& fill,
                              Bytes shard_size, const std::map<std::string, std::string>& other_files) {
  require_unique(tensors);
  const fs::path folder = without_slash(target);
  std::error_code failed;
  if (fs::exists(folder, failed) && !(fs::is_directory(folder, failed) && fs::is_empty(folder, failed))) {
    throw Error(ErrorCode::kUsage, fmt::format("{} exists, expected a new or empty folder", folder.string()))
        .at({.file = folder.string()})
        .hint("choose another folder or remove this one");
  }
  const fs::path temporary = temporary_name(folder);
  fs::create_directories(temporary, failed);
  if (failed) throw io_error(temporary, "create", failed.value());
  try {
    const auto shards = split_in_shards(tensors, shard_size);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      names.push_back(shards.size() == 1 ? "model.safetensors"
                                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
      write_tensors(temporary / names.back(), tensors, shards[i], fill);
    }
    if (shards.size() > 1) write_index(temporary, tensors, shards, names);
    for (const auto& [name, content] : other_files) write_file_atomically(temporary / name, content);
    flush_folder(temporary);
    if (::rename(temporary.c_str(), folder.c_str()) != 0)
      throw io_error(folder, "rename the finished folder to", errno);
  } catch (...) {
    fs::remove_all(temporary, failed);
    throw;
  }
  flush_folder(folder.parent_path());
}

}  // namespace zeroplan::models
