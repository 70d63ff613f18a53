// Checkpoints on disk. Purpose: states of every group by rank in extents with checksums, written beside the last
// checkpoint and put in its place only when whole. Main types: Manifest, CheckpointFolder, CheckpointWriter,
// Checkpoint. The files are the same at every ZeRO stage, whether ranks are threads or processes:
//   DIR/latest                         name of the last whole checkpoint
//   DIR/step-00000100/manifest.json    model, partition, place in training
//   DIR/step-00000100/rank-00000.json  extents of that rank's file: group, state, offset, elements, checksum
//   DIR/step-00000100/rank-00000.bin   its shard of weights (fp32) and moments of each group
// Depends on planner/plan.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/core/json.h"
#include "runtime/optimizer/loss_scaler.h"
#include "runtime/state_pieces.h"

namespace zeroplan::runtime {

/// What is the same on all ranks.
struct Manifest {
  std::uint64_t updates = 0;        ///< done
  std::uint64_t tokens = 0;         ///< seen by all ranks
  std::int64_t optimizer_step = 0;  ///< updates that were not skipped
  std::uint64_t seed = 0;
  double loss = 0;                             ///< of the last update
  std::optional<LossScalerState> loss_scaler;  ///< with fp16 only
};

/// One state of one group in a rank's file.
struct Extent {
  std::string group;
  std::string state;  ///< "weights", "moment 1", "moment 2"
  Bytes offset;
  Elements elements;
  std::string checksum;  ///< XXH3, 64 bits, hexadecimal
};

/// The folder of one checkpoint, without a valid name until `publish`: the part of one process for all ranks. Destroyed
/// before, it leaves nothing behind.
class CheckpointFolder {
 public:
  /// Creates DIR if need be, and in it a temporary folder with the manifest. \throws Error{kIo}
  CheckpointFolder(const planner::Plan& plan, const std::filesystem::path& directory, const Manifest& manifest);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  /// The temporary folder's name in DIR.
  std::string temporary_name() const { return temporary_.filename().string(); }
  /// Once all ranks' files are finished: renames the folder, points `latest` at it and removes all but the last `keep`
  /// (0: keep all).
  /// \returns the checkpoint's folder. \throws Error{kIo}; then `latest` still names the one before.
  std::filesystem::path publish(std::uint64_t keep);

 private:
  std::filesystem::path directory_;
  std::filesystem::path temporary_;
  std::string name_;
};

/// Writes the files of ranks [first, first + count) into a checkpoint's temporary folder.
class CheckpointWriter {
 public:
  /// \throws Error{kIo}
  CheckpointWriter(const planner::Plan& plan, const std::filesystem::path& folder, std::uint64_t first,
                   std::uint64_t count);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Appends the states of a group that have an address, its shard of each, to the rank's file; the groups of one rank
  /// on one thread, weights before moments. \throws Error{kIo} (a full disk,
  /// ...)
  void add(std::uint64_t rank, const GroupState& group);
  /// Flushes the files to the disk and writes their lists. \throws Error{kIo}
  void finish();

 private:
  struct RankFile;
  const planner::Plan& plan_;
  std::uint64_t first_;
  std::vector<std::unique_ptr<RankFile>> files_;
};

/// A whole checkpoint that is read.
class Checkpoint {
 public:
  /// A checkpoint's folder, or a directory whose `latest` names one.
  /// \throws Error{kIo, kInvalidInput} if there is none or its manifest is broken
  explicit Checkpoint(const std::filesystem::path& path);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// The model's config, and the name under which it was trained.
  const Json& config() const { return config_; }
  const std::string& model_name() const { return model_name_; }
  std::uint64_t ranks() const { return ranks_; }
  std::uint64_t persistence_threshold() const { return persistence_threshold_; }

  /// \throws Error{kInvalidInput} unless plan and checkpoint have the same model, partition and optimizer; says what
  /// differs
  void check_matches(const planner::Plan& plan) const;
  /// Fills parameters, master weights and moments of a group. Safe to call from several threads.
  /// \throws Error{kIo} for a short file, Error{kInvalidInput} for a wrong checksum
  void restore(const planner::Plan& plan, const GroupState& group) const;
  /// One rank's shard of a state, as fp32. \throws as `restore`
  std::vector<float> read_shard(std::uint64_t rank, const std::string& group, const std::string& state,
                                Elements elements) const;

 private:
  const Extent& extent(std::uint64_t rank, const std::string& group, const std::string& state) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  Json config_;
  Json partition_;
  std::string model_name_;
  std::string optimizer_;
  std::uint64_t ranks_ = 0;
  std::uint64_t persistence_threshold_ = 0;
  std::vector<std::vector<Extent>> extents_;  ///< by rank
};

}  // namespace zeroplan::runtime
