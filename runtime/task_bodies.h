// What each kind of task does on the CPU. Purpose: the one place that turns planned work into calls of kernels,
// collectives and hooks. Main types: TaskHooks, InputTarget, TaskBodyMaker. Depends on planner/plan, kernels and comm.
#pragma once

#include <memory>

#include "kernels/step_scalars.h"
#include "kernels/workers.h"
#include "runtime/comm/collectives.h"
#include "runtime/lanes.h"
#include "runtime/program_binding.h"
#include "runtime/state_pieces.h"

namespace zeroplan::runtime {

/// One rank's entry of the buffer "norm partials".
struct NormPartial {
  double sum_of_squares = 0;
  double loss_sum = 0;
};
static_assert(sizeof(NormPartial) == planner::kNormPartialBytes.count());

/// Where the next micro-batch goes.
struct InputTarget {
  std::int32_t* tokens = nullptr;           ///< [micro_batch x seq]
  std::int32_t* labels = nullptr;           ///< likewise
  kernels::StepScalars* scalars = nullptr;  ///< null but in the first micro-step of an update, and in eval
  bool trains = true;                       ///< false: eval
};

/// What the executor asks of the one who trains; called on lanes' threads. `input` and `finished` must not allocate
/// memory.
class TaskHooks {
 public:
  virtual ~TaskHooks() = default;
  virtual void input(const StepPosition& position, const InputTarget& target) = 0;
  /// Fills parameters and master weights, padding included.
  virtual void load(const GroupState& group) = 0;
  virtual void save(const GroupState& group) = 0;
  /// Gradient norm, clip factor and the sum of all ranks' losses are known.
  virtual void finished(const StepPosition& position, const kernels::StepScalars& scalars) = 0;
};

/// What the bodies of one rank share; outlives them.
struct TaskContext {
  const planner::Plan& plan;
  const Arenas& arenas;
  Collectives& collectives;
  kernels::Workers& workers;  ///< of the compute lane
  TaskHooks& hooks;
  StepProfile* profile = nullptr;  ///< where the time of ops is added, if anywhere
};

/// The step scalars in a buffer; null for kNoBuffer.
kernels::StepScalars* scalars_at(const TaskContext& context, planner::BufferId buffer);
/// Gathers what every rank wrote into its part of `all`, ranks x bytes, at the rank's place, on the lane of reductions.
std::unique_ptr<TaskBody> make_gather_body(const TaskContext& context, void* all, std::uint64_t bytes_of_rank);
/// \throws Error{kInvalidInput, kUnsupported}
std::unique_ptr<TaskBody> make_task_body(const TaskContext& context, const planner::Step& step,
                                         const planner::Task& task);

}  // namespace zeroplan::runtime
