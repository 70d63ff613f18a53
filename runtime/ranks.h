// The ranks of this process, whoever executes them. Purpose: what the training loop asks of them, so that it is the
// same for threads on the CPU and for a device. Main type: Ranks. Depends on run_record, kernels' scalars.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/step_scalars.h"
#include "planner/run_record.h"
#include "runtime/lanes.h"
#include "runtime/state_pieces.h"
#include "runtime/step_profile.h"
#include "runtime/stop_signal.h"
#include "runtime/update_gate.h"

namespace zeroplan::runtime {

/// What lies on a card, in bytes of the whole card.
struct DeviceUse {
  std::size_t at_start = 0;   ///< taken when the device was opened: the driver's context, and other processes
  std::size_t libraries = 0;  ///< what came to it until every call was prepared, less the arenas
  std::size_t arenas = 0;     ///< asked for, of all ranks
  std::size_t now = 0;        ///< taken in all
};

/// One thread owns it and makes all calls.
class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Runs a phase on all ranks and returns when it has ended. \throws the first error of any rank
  virtual void run_phase(std::string_view name, const StepPosition& position = {}) = 0;
  /// Starts updates on all ranks; `finish_updates` once the gate is closed. \throws likewise
  virtual void start_updates(std::uint64_t first_update, const UpdateGate& gate) = 0;
  virtual void finish_updates() = 0;

  /// Ends all waits when any rank fails.
  virtual StopSignal& stop() = 0;
  /// Ranks of this process; the functions below count them from 0.
  virtual std::size_t size() const = 0;
  /// Of the first of them, in the run.
  virtual std::uint64_t first_rank() const { return 0; }

  // Only while idle.
  virtual kernels::StepScalars scalars(std::size_t rank) const = 0;
  virtual void set_scalars(std::size_t rank, const kernels::StepScalars& scalars) = 0;
  /// Calls `write` for every group, with the addresses of memory of the host that becomes the rank's state; one or
  /// several calls a group, each with some of its states.
  virtual void restore(std::size_t rank, const std::function<void(const GroupState&)>& write) = 0;
  /// The highest end of an access so far, rounded up to the tier's alignment.
  virtual Bytes used(std::size_t rank, planner::Tier tier) const = 0;
  /// Bytes of the arena written at least once.
  virtual Bytes written(std::size_t rank, planner::Tier tier) const = 0;
  /// Of the first rank: lanes, moved bytes and tiers of the last run of updates; without the time of a step.
  virtual planner::RunRecord record() const = 0;
  /// Of the first rank, over the whole run; empty unless it was asked for.
  virtual std::vector<StepProfile::Row> profile() const { return {}; }
  /// None on the CPU.
  virtual std::optional<DeviceUse> device_use() const { return std::nullopt; }
};

}  // namespace zeroplan::runtime
