#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "kernels/ranges.h"
#include "models/core/file_io.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/partition_json.h"
#include "runtime/data/mapped_file.h"

namespace zeroplan::runtime {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  if (!fs::exists(path / "latest")) return path;
  std::string name = read_file(path / "latest", Bytes(4096));
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  if (!name.starts_with("step-") || name.find('/') != std::string::npos) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: names '{}', expected step-NUMBER", (path / "latest").string(), name))
        .at({.file = (path / "latest").string(), .value = name});
  }
  return path / name;
}

std::vector<Extent> read_extents(const fs::path& path) {
  const Json document = read_json_file(path);
  const JsonView list = JsonView(document, path.string()).at("extents");
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const JsonView item = list.at(i);
    extents.push_back({item.at("group").as_string(), item.at("state").as_string(), Bytes(item.at("offset").as_count()),
                       Elements(item.at("elements").as_count()), item.at("checksum").as_string()});
  }
  return extents;
}

/// The first thing in which two partitions differ.
std::string difference(const Json& checkpoint, const Json& plan) {
  if (checkpoint.value("ranks", Json()) != plan["ranks"]) {
    return fmt::format("it was written by {} ranks, the plan has {}", checkpoint.value("ranks", Json()).dump(),
                       plan["ranks"].dump());
  }
  const char* threshold = "param_persistence_threshold";
  if (checkpoint.value(threshold, Json()) != plan[threshold]) {
    return fmt::format("it was written with --param-persistence-threshold {}, the plan has {}",
                       checkpoint.value(threshold, Json()).dump(), plan[threshold].dump());
  }
  return "its tensors are not those of the plan's model";
}

LossScalerState read_scaler(const JsonView& view) {
  LossScalerState state;
  state.scale = view.at("scale").as_number();
  state.hysteresis = static_cast<std::int64_t>(view.at("hysteresis").as_count());
  state.iteration = static_cast<std::int64_t>(view.at("iteration").as_count());
  if (view.has("last_overflow")) state.last_overflow = static_cast<std::int64_t>(view.at("last_overflow").as_count());
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!(state.scale > 0 && state.scale <= kLargest)) throw view.at("scale").unexpected("a positive number of fp32");
  if (state.hysteresis < 1) throw view.at("hysteresis").unexpected("at least 1");
  if (state.last_overflow >= state.iteration && state.last_overflow >= 0) {
    throw view.at("last_overflow").unexpected("less than iteration");
  }
  return state;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& path) : folder_(folder_of(path)) {
  const fs::path file = folder_ / "manifest.json";
  if (!fs::exists(file)) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: no checkpoint there (no latest, no manifest.json)", path.string()))
        .at({.file = path.string()})
        .hint("give the --checkpoint-dir of a run, or one of its step folders");
  }
  const Json document = read_json_file(file);
  const JsonView view(document, file.string());
  if (view.string_or("format", "") != "zeroplan/checkpoint") throw view.at("format").unexpected("zeroplan/checkpoint");
  if (view.at("version").as_count() != 1) throw view.at("version").unexpected("1");
  manifest_.updates = view.at("updates").as_count();
  manifest_.tokens = view.at("tokens").as_count();
  manifest_.optimizer_step = static_cast<std::int64_t>(view.at("optimizer_step").as_count());
  manifest_.seed = view.at("seed").as_count();
  manifest_.loss = view.number_or("loss", 0);
  if (view.has("loss_scaler")) manifest_.loss_scaler = read_scaler(view.at("loss_scaler"));
  config_ = view.at("model").at("config").as_object();
  model_name_ = view.at("model").at("name").as_string();
  partition_ = view.at("partition").as_object();
  optimizer_ = view.at("training").at("optimizer").as_string();
  ranks_ = view.at("partition").at("ranks").as_count();
  persistence_threshold_ = view.at("partition").at("param_persistence_threshold").as_count();
  if (ranks_ == 0 || ranks_ > 1'000'000) throw view.at("partition").at("ranks").unexpected("1 to 1000000");
  for (std::uint64_t r = 0; r < ranks_; ++r)
    extents_.push_back(read_extents(folder_ / fmt::format("rank-{:05}.json", r)));
}

void Checkpoint::check_matches(const planner::Plan& plan) const {
  const std::string file = (folder_ / "manifest.json").string();
  const std::string optimizer(planner::name_of(plan.training.optimizer));
  if (optimizer_ != optimizer) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: it was written with the optimizer {}, the plan has {}",
                                                      folder_.string(), optimizer_, optimizer))
        .at({.file = file, .key = "training.optimizer", .value = optimizer_})
        .hint(fmt::format("moments of one optimizer mean nothing to another: make the plan with --optimizer {}",
                          optimizer_));
  }
  const Json expected = partition_json(plan);
  if (partition_ == expected) return;
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", folder_.string(), difference(partition_, expected)))
      .at({.file = file, .key = "partition"})
      .hint("resume with a plan for the same model, ranks and persistence threshold; the ZeRO stage may differ");
}

const Extent& Checkpoint::extent(std::uint64_t rank, const std::string& group, const std::string& state) const {
  for (const Extent& extent : extents_.at(rank)) {
    if (extent.group == group && extent.state == state) return extent;
  }
  const std::string file = (folder_ / fmt::format("rank-{:05}.json", rank)).string();
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: no extent for {} of {}", file, state, group))
      .at({.file = file});
}

std::vector<float> Checkpoint::read_shard(std::uint64_t rank, const std::string& group, const std::string& state,
                                          Elements elements) const {
  const Extent& e = extent(rank, group, state);
  const MappedFile file(folder_ / fmt::format("rank-{:05}.bin", rank));
  const std::string place = file.path().string();
  const Bytes bytes = elements * DType::kFp32;
  if (e.elements != elements) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} of {} has {} elements, expected {}", place, state, group,
                                                      e.elements.count(), elements.count()))
        .at({.file = place});
  }
  if (e.offset.count() > file.size() || bytes.count() > file.size() - e.offset.count()) {
    throw Error(ErrorCode::kIo, fmt::format("{}: {} bytes, but {} of {} ends at {}", place, file.size(), state, group,
                                            (e.offset + bytes).count()))
        .at({.file = place})
        .hint("the file was cut: resume from another checkpoint of the folder");
  }
  const auto data = file.as<std::byte>().subspan(e.offset.count(), bytes.count());
  if (checksum(data) != e.checksum) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} of {} has the checksum {}, expected {}", place, state,
                                                      group, checksum(data), e.checksum))
        .at({.file = place})
        .hint("the file was damaged: resume from another checkpoint of the folder");
  }
  std::vector<float> values(elements.count());
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

void Checkpoint::restore(const planner::Plan& plan, const GroupState& group) const {
  const planner::ShardGroup& shard_group = plan.partition.groups.at(group.group);
  const auto copy_into = [&](std::byte* data, DType dtype, Elements begin, Elements count, const std::string& state) {
    if (data == nullptr) return;
    for (std::uint64_t r = 0; r < ranks_; ++r) {
      const Elements shard_begin = shard_group.shard * r;
      if (shard_begin < begin || shard_begin >= begin + count) continue;
      const std::vector<float> values = read_shard(r, shard_group.name, state, shard_group.shard);
      kernels::reference::copy({.out_dtype = dtype,
                                .count = values.size(),
                                .x = values.data(),
                                .out = data + ((shard_begin - begin) * dtype).count()});
    }
  };
  copy_into(group.parameters, group.parameter_dtype, group.parameters_begin, group.parameters_count, "weights");
  copy_into(reinterpret_cast<std::byte*>(group.master), DType::kFp32, group.states_begin, group.states_count,
            "weights");
  for (std::size_t m = 0; m < group.moments.size(); ++m) {
    copy_into(group.moments[m], group.moment_dtype, group.states_begin, group.states_count,
              fmt::format("moment {}", m + 1));
  }
}

}  // namespace zeroplan::runtime
