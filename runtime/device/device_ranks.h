// Ranks on one device. Purpose: one thread enqueues every rank's tasks and never waits for the device inside an update;
// from the third update on an update is two graphs. Main type: DeviceRanks. Depends on device_streams.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/device/device_streams.h"
#include "runtime/ranks.h"

namespace zeroplan::runtime {

class DeviceRanks final : public Ranks {
 public:
  using MakeHooks = std::function<std::unique_ptr<TaskHooks>(std::uint64_t rank)>;

  /// All ranks of `plan`, a loopback plan of the CUDA back end. Asks the device for its free memory before it
  /// allocates. \throws Error{kDevice} without a device, Error{kDoesNotFit} with the number of bytes that are missing
  DeviceRanks(const planner::Plan& plan, const MakeHooks& make_hooks, kernels::Device* device, bool use_graphs);
  ~DeviceRanks() override;

  void run_phase(std::string_view name, const StepPosition& position = {}) override;
  void start_updates(std::uint64_t first_update, const UpdateGate& gate) override;
  void finish_updates() override;
  StopSignal& stop() override { return stop_; }
  std::size_t size() const override { return ranks_.size(); }
  kernels::StepScalars scalars(std::size_t rank) const override { return ranks_.at(rank).scalars; }
  void set_scalars(std::size_t rank, const kernels::StepScalars& scalars) override {
    ranks_.at(rank).scalars = scalars;
  }
  void restore(std::size_t rank, const std::function<void(const GroupState&)>& write) override;
  Bytes used(std::size_t rank, planner::Tier tier) const override;
  Bytes written(std::size_t rank, planner::Tier tier) const override;
  planner::RunRecord record() const override;

  std::optional<DeviceUse> device_use() const override;

 private:
  void allocate();
  void run_updates(std::uint64_t first_update, const UpdateGate& gate);
  void run_update(std::uint64_t update);
  void prepare_inputs(std::uint64_t update);
  void cut_update();
  void take_scalars(std::size_t step);

  const planner::Plan& plan_;
  kernels::Device& device_;
  bool use_graphs_;
  StopSignal stop_;
  std::vector<DeviceRank> ranks_;
  DeviceContext context_;
  std::unique_ptr<DeviceProgram> program_;
  std::unique_ptr<kernels::DeviceEvent> norm_ended_;
  /// An update up to the end of its norm, and the rest.
  std::vector<TaskRange> to_norm_, to_end_;
  std::unique_ptr<kernels::DeviceGraph> graph_to_norm_, graph_to_end_;
  std::uint64_t updates_run_ = 0;
  std::array<double, planner::kLaneCount> lane_seconds_ = {};
  std::size_t library_bytes_ = 0;
  std::jthread thread_;  ///< last: ends first
};

}  // namespace zeroplan::runtime
