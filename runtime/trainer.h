// The training loop. Purpose: drives the ranks of this process through a plan: init or resume, updates, checkpoints,
// and says what each update gave. Main types: TrainSettings, StepReport, TrainSummary, Trainer. Depends on executor,
// data, optimizer, checkpoint, weights.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "planner/run_record.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/process_group.h"
#include "runtime/data/batches.h"
#include "runtime/optimizer/loss_scaler.h"
#include "runtime/optimizer/optimizer_settings.h"
#include "runtime/optimizer/schedule.h"
#include "runtime/ranks.h"
#include "runtime/weights/weight_source.h"

namespace zeroplan::runtime {

struct TrainSettings {
  std::uint64_t steps = 10;  ///< updates in all, resumed ones included
  std::uint64_t seed = 0;
  double weight_decay = 0.01;
  double max_grad_norm = 1;  ///< 0: no clipping
  int threads = 1;           ///< per rank
  std::optional<std::filesystem::path> checkpoint_dir;
  std::uint64_t checkpoint_every = 0;  ///< 0: only at the end
  std::uint64_t keep = 0;              ///< 0: all
  bool resume = false;
  LossScaleSettings loss_scale;  ///< fp16-mixed only
  bool poison = false;           ///< test: see ExecutorOptions
  bool profile = false;          ///< measure each op
  OptimizerSettings optimizer;
  kernels::Device* device = nullptr;  ///< that runs plans of the CUDA back end; must outlive the trainer
  bool use_graphs = true;             ///< on a device: updates after the first two are launched as graphs
};

/// What one update gave.
struct StepReport {
  std::uint64_t step = 0;  ///< from 1
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double step_s = 0;
  double tokens_per_s = 0;
  bool skipped = false;   ///< the gradient was not finite
  double loss_scale = 1;  ///< under which the gradient was made
  bool scales_loss = false;
};

struct TrainSummary {
  std::uint64_t steps = 0;   ///< done in this run
  std::uint64_t tokens = 0;  ///< in this run, of all ranks
  std::optional<double> loss;
  std::optional<double> median_step_s;  ///< of all but the first
  planner::RunRecord record;            ///< of rank 0
  /// Of rank 0 over the whole run, its beginning included; empty without TrainSettings::profile.
  std::vector<StepProfile::Row> profile;
  /// Of all ranks of this process.
  std::array<Bytes, planner::kTierCount> planned;
  std::array<Bytes, planner::kTierCount> used;
  std::array<Bytes, planner::kTierCount> written;
  std::optional<DeviceUse> device_use;  ///< none on the CPU
  std::optional<std::filesystem::path> checkpoint;
  bool interrupted = false;
};

/// Loss of a data set.
struct EvalSummary {
  double loss = 0;  ///< mean over counted tokens
  std::uint64_t tokens = 0;
};

/// Trains one plan. All arguments of the constructor must outlive it.
class Trainer {
 public:
  using OnStep = std::function<void(const StepReport&)>;

  /// Allocates all memory, fills or restores the states.
  /// \param processes  of which this is one; without it all ranks are threads of this process. All members make the
  /// same
  ///   calls of a trainer.
  /// \throws Error for what is wrong with plan, weights or checkpoint
  Trainer(const planner::Plan& plan, const TrainSettings& settings, const Batches& batches, const WeightSource& weights,
          const Schedule& schedule, ProcessGroup* processes = nullptr);
  ~Trainer();

  /// Updates already done by the checkpoint from which it resumed.
  std::uint64_t resumed_updates() const { return done_; }
  /// Runs to `steps`, or to the end of a step shortly after `interrupt` became true, the same one on all ranks
  /// whichever was interrupted; then saves, if asked to.
  /// \throws the first error of any rank; Error{kIo} if a checkpoint cannot be written
  TrainSummary train(const OnStep& on_step, const std::atomic<bool>& interrupt);
  /// Forward passes over `passes` micro-batches of each rank.
  EvalSummary evaluate(std::uint64_t passes);

  Ranks& ranks() { return *ranks_; }

 private:
  class Hooks;
  class Reports;
  class FailureWatch;

  bool is_leader() const { return processes_ == nullptr || processes_->rank() == 0; }
  bool is_interrupted(const std::atomic<bool>& interrupt);
  void meet();
  std::string from_leader(const std::string& text);
  std::vector<double> of_all_ranks(const std::vector<double>& values);
  void restore(const Checkpoint& checkpoint);
  void run_updates(std::uint64_t end, const OnStep& on_step, const std::atomic<bool>& interrupt);
  void report_step(const kernels::StepScalars& scalars, double step_s, const OnStep& on_step);
  std::filesystem::path save();
  void measure_memory(TrainSummary& summary) const;
  bool scales_loss() const { return plan_.training.precision == planner::Precision::kFp16Mixed; }

  const planner::Plan& plan_;
  TrainSettings settings_;
  const Batches& batches_;
  const WeightSource& weights_;
  const Schedule& schedule_;
  LossScaler scaler_;                     ///< after `done_` updates
  std::vector<LossScaler> rank_scalers_;  ///< after the updates that each rank has done
  ProcessGroup* processes_;
  std::unique_ptr<Reports> reports_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<FailureWatch> watch_;       ///< ends before the ranks that it stops
  std::unique_ptr<CheckpointWriter> writer_;  ///< while a checkpoint is written
  std::uint64_t done_ = 0;
  double last_loss_ = 0;
  bool interrupted_ = false;  ///< agreed by all ranks
  std::vector<double> step_times_;
};

}  // namespace zeroplan::runtime
