// Writes the steps of a plan: the training cycle, init, save and eval. Main types: ScheduleContext, and one function a
// phase.
#pragma once

#include <vector>

#include "planner/schedule/buckets.h"
#include "planner/schedule/gather_schedule.h"
#include "planner/schedule/plan_draft.h"
#include "planner/schedule/state_buffers.h"
#include "planner/schedule/unit_programs.h"

namespace zeroplan::planner {

/// What all steps are written from.
struct ScheduleContext {
  PlanDraft& draft;
  StateBuffers states;
  std::vector<UnitPrograms> programs;  ///< one a unit

  const Plan& plan() const { return draft.plan(); }
  std::size_t units() const { return plan().model.units.size(); }
  /// Groups that unit `u` needs gathered: at stage 3 those kept as shards.
  std::vector<std::uint32_t> gathered_groups(std::size_t unit) const;
  /// Padded elements of each group.
  std::vector<std::uint64_t> group_elements() const;
  GatherLimits gather_limits() const;
};

/// Element type of parameters as kernels see them.
DType parameter_dtype(const Plan& plan);

/// "only", or "first", "middle" (from three passes on), "last".
std::vector<std::string> training_step_names(std::uint64_t accumulation);

void write_init(ScheduleContext& context);
void write_training_steps(ScheduleContext& context);
void write_save(ScheduleContext& context);
void write_eval(ScheduleContext& context);

}  // namespace zeroplan::planner
