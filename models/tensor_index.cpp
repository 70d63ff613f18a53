#include <set>

#include <fmt/format.h>

#include "models/core/file_io.h"
#include "models/core/json.h"
#include "models/safetensors.h"

namespace zeroplan::models {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr JsonLimits kIndexLimits = {.most_bytes = std::uint64_t{100} << 20, .most_depth = 8};

}  // namespace

bool TensorIndex::exists_in(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kSingleFile, ignored) || fs::is_regular_file(folder / kIndexFile, ignored);
}

TensorIndex TensorIndex::open(const fs::path& source) {
  std::error_code ignored;
  fs::path path = source;
  if (fs::is_directory(path, ignored)) {
    path = fs::is_regular_file(source / kIndexFile, ignored) ? source / kIndexFile : source / kSingleFile;
    if (!fs::is_regular_file(path, ignored)) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{} holds neither {} nor {}", source.string(), kSingleFile, kIndexFile))
          .at({.file = source.string()})
          .hint("name a folder with the weights of a Hugging Face model");
    }
  }
  TensorIndex index;
  if (path.extension() != ".json") {
    index.add(path);
    return index;
  }
  const nlohmann::json document =
      parse_large_json(read_file(path, Bytes(kIndexLimits.most_bytes)), path.string(), kIndexLimits);
  const auto bad_entry = [&](const std::string& key, const nlohmann::json& value, std::string_view expected) {
    const Json copy = value.is_structured() ? Json("a list or an object") : Json(value);
    return JsonView(copy, path.string(), key).unexpected(expected).hint("shards stand in the folder of their index");
  };
  if (!document.is_object() || !document.contains("weight_map") || !document["weight_map"].is_object()) {
    throw bad_entry("weight_map", nullptr, "an object from tensor names to file names");
  }
  const nlohmann::json& map = document["weight_map"];
  std::set<std::string> files;
  for (const auto& [name, value] : map.items()) {
    const std::string file_name = value.is_string() ? value.get<std::string>() : "";
    if (file_name.empty() || fs::path(file_name).filename() != file_name || file_name == "." || file_name == "..") {
      throw bad_entry("weight_map." + name, value, "the name of a file beside the index");
    }
    files.insert(file_name);
  }
  for (const std::string& file : files) index.add(path.parent_path() / file);
  for (const auto& [name, value] : map.items()) {
    const Found found = index.find(name);
    if (found.file == nullptr || found.file->path().filename() != value.get<std::string>()) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} is not in {}, expected as the index says",
                                                        path.string(), name, value.get<std::string>()))
          .at({.file = path.string(), .key = "weight_map." + name, .value = value.get<std::string>()})
          .hint("index and shards belong to different downloads; fetch them again");
    }
  }
  return index;
}

void TensorIndex::add(const fs::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  for (const TensorEntry& entry : file.tensors()) {
    const auto [it, is_new] = by_name_.emplace(entry.name, Found{.file = &file, .entry = &entry});
    if (!is_new) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{} is in {} and in {}, expected in one file", entry.name,
                                                        it->second.file->path().string(), path.string()))
          .at({.file = path.string(), .key = entry.name})
          .hint("remove the files of another download");
    }
  }
}

TensorIndex::Found TensorIndex::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? Found{} : it->second;
}

std::vector<TensorIndex::Found> TensorIndex::all() const {
  std::vector<Found> found;
  for (const auto& file : files_) {
    for (const TensorEntry& entry : file->tensors()) found.push_back({.file = file.get(), .entry = &entry});
  }
  return found;
}

}  // namespace zeroplan::models
