// One pass over the units as compute tasks with their gathers and releases: what a training micro-step and eval share.
// Main types: ComputeStep, GatheredBuffers, UnitSequence.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/schedule/schedule_writer.h"

namespace zeroplan::planner {

/// One compute task of the pass.
struct ComputeStep {
  std::size_t unit = 0;
  TaskKind kind = TaskKind::kForward;
};

/// Forward pass, loss, and where it trains the backward pass.
std::vector<ComputeStep> compute_sequence(const models::Model& model, bool trains);

/// The buffers of one pass; made once and shared by all micro-steps.
struct PassBuffers {
  BufferId tokens = kNoBuffer;
  BufferId labels = kNoBuffer;
  std::vector<BufferId> residuals;  ///< input of unit u; none for the first
  std::vector<BufferId> saved;      ///< of unit u; kNoBuffer where it saves nothing
  BufferId residual_gradient = kNoBuffer;
  std::vector<BufferId> frames;    ///< of each compute step
  std::vector<BufferId> gathered;  ///< of each residency
};

/// A pass with everything that is the same in each of its micro-steps.
class UnitSequence {
 public:
  /// \param prefix  of the buffers' names: "" or "eval / "
  UnitSequence(ScheduleContext& context, bool trains, const std::string& prefix);

  const std::vector<ComputeStep>& steps() const { return steps_; }
  const PassBuffers& buffers() const { return buffers_; }

  /// Gathers that may start once compute step `after` has ended (-1: the input has come). `trigger`: the task they wait
  /// for.
  void write_gathers(std::int64_t after, TaskId trigger);
  /// The compute task itself. `adds`: parameter gradients are added to. The reference is valid until the next task.
  Task& write_compute(std::size_t position, bool adds);
  /// Releases after compute step `position`.
  void write_releases(std::size_t position);

 private:
  std::uint32_t program_of(const ComputeStep& step, bool adds) const;
  std::string phase_of(std::size_t position) const;
  void bind_groups(Task& task, ComputeWork& work, std::size_t position, bool adds);
  void bind_places(Task& task, ComputeWork& work, const ComputeStep& step);
  BufferId parameters_of(std::uint32_t group, std::size_t position) const;
  void clear_padding(ComputeWork& work, std::uint32_t group) const;
  bool writes_first(std::uint32_t group, std::size_t unit) const;

  ScheduleContext& context_;
  bool trains_;
  std::vector<ComputeStep> steps_;
  std::vector<Residency> residencies_;
  PassBuffers buffers_;
};

}  // namespace zeroplan::planner
