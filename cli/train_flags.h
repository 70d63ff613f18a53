// The flags of `train` that `eval` shares. Main type: TrainFlags.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "cli/loss_scale_flags.h"
#include "cli/optimizer_flags.h"
#include "runtime/trainer.h"

namespace zeroplan::cli {

/// As typed; checked by the functions.
class TrainFlags {
 public:
  void add_data(CLI::App& app);
  void add_backend(CLI::App& app);
  void add_training(CLI::App& app);

  /// Refuses another comm, back end or number of ranks than the plan's, and what this build lacks.
  /// \throws Error{kUsage} naming the plan command that would make a fitting plan
  void check_against(const planner::Plan& plan) const;
  /// How the ranks of a plan for several processes meet; nothing for loopback. \throws Error{kUsage}
  std::optional<runtime::ProcessSettings> processes(const planner::Plan& plan) const;
  /// \param processes  of this run, if there are several
  int threads_of(const planner::Plan& plan, const runtime::ProcessGroup* processes = nullptr) const;
  /// What all processes of a run must have been given alike.
  Json sameness(const planner::Plan& plan) const;
  std::uint64_t seed() const;
  std::optional<std::uint64_t> steps() const;
  runtime::DataFlags data(const planner::Plan& plan) const;
  const std::string& data_name() const { return data_; }
  runtime::TrainSettings settings(const planner::Plan& plan, const runtime::ProcessGroup* processes = nullptr) const;
  runtime::ScheduleSettings schedule() const;
  std::unique_ptr<runtime::WeightSource> weights(const models::Model& model) const;
  const std::string& log_path() const { return log_; }
  void set_checkpoint(const std::string& directory) { checkpoint_dir_ = directory; }

 private:
  std::string data_, labels_, steps_, seed_ = "0", init_ = "random", rate_ = "3e-4", decay_ = "0.01", clip_ = "1";
  std::string warmup_ = "0", schedule_ = "constant", schedule_arguments_, backend_, ranks_, comm_, rendezvous_,
              threads_, rehearse_, rank_, rendezvous_timeout_ = "60", heartbeat_limit_ = "10";
  LossScaleFlags loss_scale_;
  std::string checkpoint_dir_, every_ = "0", keep_ = "0", disk_dir_, log_;
  bool resume_ = false, profile_ = false;
  OptimizerFlags optimizer_;
};

/// The planned, used or written bytes of the document.
/// \param device_is_host  the CPU back end, whose device arenas the host includes
Json tier_bytes(const std::array<Bytes, planner::kTierCount>& bytes, bool device_is_host);

/// The card that executes the plan; null for plans of the CPU back end. \throws RunFailed: no back end, no card, ...
std::unique_ptr<kernels::Device> open_device_of(const planner::Plan& plan);

}  // namespace zeroplan::cli
