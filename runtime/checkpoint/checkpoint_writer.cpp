#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/ranges.h"
#include "models/core/file_io.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/output_file.h"
#include "runtime/checkpoint/partition_json.h"

namespace zeroplan::runtime {
namespace {

namespace fs = std::filesystem;

Error folder_error(const fs::path& path, std::string_view doing, const std::error_code& reason) {
  return Error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), doing, reason.message()))
      .at({.file = path.string()})
      .hint("check the path, its permissions and the space on its disk");
}

Json extents_json(const std::vector<Extent>& extents) {
  Json list = Json::array();
  for (const Extent& extent : extents) {
    list.push_back({{"group", extent.group},
                    {"state", extent.state},
                    {"dtype", to_string(DType::kFp32)},
                    {"offset", extent.offset.count()},
                    {"elements", extent.elements.count()},
                    {"checksum", extent.checksum}});
  }
  return {{"extents", std::move(list)}};
}

Json scaler_json(const std::optional<LossScalerState>& scaler) {
  if (!scaler) return nullptr;
  return {{"scale", scaler->scale},
          {"hysteresis", scaler->hysteresis},
          {"iteration", scaler->iteration},
          {"last_overflow", scaler->last_overflow < 0 ? Json(nullptr) : Json(scaler->last_overflow)}};
}

Json manifest_json(const planner::Plan& plan, const Manifest& manifest) {
  return {{"format", "zeroplan/checkpoint"},
          {"version", 1},
          {"model", {{"name", plan.model.name}, {"config", plan.model.config}}},
          {"training", plan.training.to_json()},
          {"partition", partition_json(plan)},
          {"updates", manifest.updates},
          {"tokens", manifest.tokens},
          {"optimizer_step", manifest.optimizer_step},
          {"seed", manifest.seed},
          {"loss", manifest.loss},
          {"loss_scaler", scaler_json(manifest.loss_scaler)}};
}

/// Whole checkpoints of a directory, oldest first. The names sort like the steps.
std::vector<fs::path> checkpoints_in(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

struct CheckpointWriter::RankFile {
  explicit RankFile(const fs::path& folder, std::uint64_t rank)
      : list_path(folder / fmt::format("rank-{:05}.json", rank)), data(folder / fmt::format("rank-{:05}.bin", rank)) {}

  fs::path list_path;
  OutputFile data;
  std::vector<Extent> extents;

  void add(const std::string& group, const std::string& state, std::span<const std::byte> bytes) {
    extents.push_back({group, state, data.written(), Elements(bytes.size() / size_of(DType::kFp32)), checksum(bytes)});
    data.write(bytes);
  }
};

CheckpointFolder::CheckpointFolder(const planner::Plan& plan, const fs::path& directory, const Manifest& manifest)
    : directory_(directory), name_(fmt::format("step-{:08}", manifest.updates)) {
  temporary_ = directory_ / fmt::format(".{}.tmp{}", name_, ::getpid());
  std::error_code reason;
  fs::create_directories(directory_, reason);
  if (!reason) fs::remove_all(temporary_, reason);
  if (!reason) fs::create_directory(temporary_, reason);
  if (reason) throw folder_error(temporary_, "create", reason);
  try {
    write_file_atomically(temporary_ / "manifest.json", manifest_json(plan, manifest).dump(1) + "\n");
  } catch (...) {
    fs::remove_all(temporary_, reason);
    throw;
  }
}

CheckpointFolder::~CheckpointFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

CheckpointWriter::CheckpointWriter(const planner::Plan& plan, const fs::path& folder, std::uint64_t first,
                                   std::uint64_t count)
    : plan_(plan), first_(first) {
  for (std::uint64_t r = first; r < first + count; ++r) files_.push_back(std::make_unique<RankFile>(folder, r));
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::add(std::uint64_t rank, const GroupState& group) {
  const planner::ShardGroup& shard_group = plan_.partition.groups.at(group.group);
  const Elements begin = shard_group.shard * rank;
  std::vector<float> wide;
  // As fp32: where it lies, or widened.
  const auto shard_of = [&](const void* data, DType dtype, Elements data_begin) {
    const auto* bytes = static_cast<const std::byte*>(data) + ((begin - data_begin) * dtype).count();
    if (dtype == DType::kFp32) return std::span(bytes, (shard_group.shard * dtype).count());
    wide.resize(shard_group.shard.count());
    kernels::reference::copy({.dtype = dtype, .count = wide.size(), .x = bytes, .out = wide.data()});
    return std::as_bytes(std::span(wide));
  };
  RankFile& file = *files_.at(rank - first_);
  if (group.master != nullptr) {
    file.add(shard_group.name, "weights", shard_of(group.master, DType::kFp32, group.states_begin));
  } else if (group.parameters != nullptr) {
    file.add(shard_group.name, "weights", shard_of(group.parameters, group.parameter_dtype, group.parameters_begin));
  }
  for (std::size_t m = 0; m < group.moments.size(); ++m) {
    if (group.moments[m] == nullptr) continue;
    file.add(shard_group.name, fmt::format("moment {}", m + 1),
             shard_of(group.moments[m], group.moment_dtype, group.states_begin));
  }
}

void CheckpointWriter::finish() {
  for (const auto& file : files_) {
    file->data.finish();
    write_file_atomically(file->list_path, extents_json(file->extents).dump(1) + "\n");
  }
}

fs::path CheckpointFolder::publish(std::uint64_t keep) {
  flush_folder(temporary_);
  const fs::path final_path = directory_ / name_;
  std::error_code reason;
  // A run that is repeated writes the same step again: the older folder steps aside until the new one is in its place.
  const fs::path aside = directory_ / fmt::format(".{}.old{}", name_, ::getpid());
  if (fs::exists(final_path)) fs::rename(final_path, aside, reason);
  if (!reason) fs::rename(temporary_, final_path, reason);
  if (reason) throw folder_error(final_path, "rename the finished checkpoint to", reason);
  temporary_.clear();
  flush_folder(directory_);
  write_file_atomically(directory_ / "latest", name_ + "\n");
  fs::remove_all(aside, reason);
  if (keep > 0) {
    const std::vector<fs::path> all = checkpoints_in(directory_);
    for (std::size_t i = 0; i + keep < all.size(); ++i) {
      if (all[i] != final_path) fs::remove_all(all[i], reason);
    }
  }
  return final_path;
}

}  // namespace zeroplan::runtime
