#include <algorithm>

#include <fmt/format.h>

#include "planner/schedule/schedule_writer.h"
#include "planner/schedule/unit_sequence.h"
#include "planner/schedule/update_tasks.h"

namespace zeroplan::planner {
namespace {

/// Collectives of gradients in flight at once: one being filled, one being reduced. A third would hold the full
/// gradients of yet another bucket, which stages 2 and 3 exist to avoid.
constexpr std::size_t kReductionsInFlight = 2;

/// Place of a micro-step in its cycle.
struct MicroStep {
  std::string name;
  bool is_first = true;
  bool is_last = true;
};

/// Writes one micro-step after another into the draft.
class TrainingStepWriter {
 public:
  explicit TrainingStepWriter(ScheduleContext& context)
      : context_(context), pass_(context, true, ""), completed_(groups_by_completion()) {
    const Plan& plan = context_.plan();
    buckets_ = fill_buckets(plan.partition, completed_, plan.strategy.reduce_bucket_size, "--reduce-bucket-size");
  }

  void write(const MicroStep& micro) {
    PlanDraft& draft = context_.draft;
    draft.begin_step(micro.name);
    reductions_.clear();
    next_bucket_ = 0;
    const TaskId input = write_input(micro);
    pass_.write_gathers(-1, input);
    for (std::size_t c = 0; c < pass_.steps().size(); ++c) write_compute(c, micro);
    if (micro.is_last) write_update();
  }

 private:
  bool shards_gradients() const { return context_.plan().strategy.stage >= 2; }

  /// Groups in the order in which the backward pass completes their gradients.
  std::vector<std::uint32_t> groups_by_completion() const {
    const Partition& partition = context_.plan().partition;
    std::vector<std::uint32_t> groups(partition.groups.size());
    for (std::uint32_t g = 0; g < groups.size(); ++g) groups[g] = g;
    std::stable_sort(groups.begin(), groups.end(), [&](auto a, auto b) {
      return partition.groups[a].units.front() > partition.groups[b].units.front();
    });
    return groups;
  }

  TaskId write_input(const MicroStep& micro) {
    PlanDraft& draft = context_.draft;
    Task& task = draft.task("input", TaskKind::kInput, Lane::kCompute);
    BufferWork work;
    work.tokens = pass_.buffers().tokens;
    work.labels = pass_.buffers().labels;
    draft.writes(task, work.tokens);
    draft.writes(task, work.labels);
    work.host = context_.states.host_input;
    draft.writes(task, work.host.tokens);
    draft.writes(task, work.host.labels);
    if (micro.is_first) {
      work.scalars = context_.states.scalars;
      draft.reads(task, work.scalars);
      draft.writes(task, work.scalars);
      draft.writes(task, work.host.scalars);
    }
    task.work = work;
    return task.id;
  }

  void write_compute(std::size_t position, const MicroStep& micro) {
    const ComputeStep step = pass_.steps()[position];
    const bool adds = !micro.is_first && !shards_gradients();
    const bool reduces = step.kind != TaskKind::kForward && (shards_gradients() || micro.is_last);
    const std::size_t filling = reduces ? first_bucket_of(step.unit) : 0;
    Task& task = pass_.write_compute(position, adds);
    const TaskId id = task.id;
    // A gradient buffer is not filled before the reduction two buckets back has ended.
    if (reduces && shards_gradients() && filling >= kReductionsInFlight &&
        filling - kReductionsInFlight < reductions_.size()) {
      task.waits.push_back(reductions_[filling - kReductionsInFlight]);
    }
    pass_.write_releases(position);
    pass_.write_gathers(static_cast<std::int64_t>(position), id);
    if (reduces) write_reductions(step.unit, micro);
  }

  /// The last bucket that holds a group whose gradient this unit is the first to write.
  std::size_t first_bucket_of(std::size_t unit) const {
    std::size_t result = 0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const ShardPiece& piece : buckets_[b].pieces) {
        if (context_.plan().partition.groups[piece.group].units.back() == unit) result = b;
      }
    }
    return result;
  }

  void write_reductions(std::size_t unit, const MicroStep& micro) {
    const Partition& partition = context_.plan().partition;
    while (next_bucket_ < buckets_.size() &&
           partition.groups[completed_[buckets_[next_bucket_].last_position]].units.front() >= unit) {
      write_reduction(next_bucket_, micro);
      ++next_bucket_;
    }
  }

  void write_reduction(std::size_t index, const MicroStep& micro) {
    PlanDraft& draft = context_.draft;
    Task& task = draft.task(fmt::format("reduce/bucket {}", index), TaskKind::kReduce, Lane::kReduce);
    CollectiveWork work;
    work.kind = context_.plan().strategy.stage == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
    work.dtype = StateBuffers::gradient_dtype(context_.plan());
    work.destination_is_shard = shards_gradients();
    work.accumulate = shards_gradients() && !micro.is_first;
    work.pieces = buckets_[index].pieces;
    for (const ShardPiece& piece : work.pieces) {
      const GroupStates& states = context_.states.groups[piece.group];
      const Bytes offset = Elements(piece.begin) * work.dtype;
      const Bytes bytes = Elements(piece.end - piece.begin) * work.dtype;
      work.source.push_back(states.gradients);
      draft.reads(task, states.gradients);
      if (work.destination_is_shard) {
        work.destination.push_back(states.gradient_shard);
        if (work.accumulate) draft.reads(task, states.gradient_shard, offset, bytes);
        draft.writes(task, states.gradient_shard, offset, bytes);
      } else {
        work.destination.push_back(states.gradients);
        draft.writes(task, states.gradients);
      }
    }
    work.staging = context_.states.reduce_staging;
    draft.writes(task, work.staging);
    task.work = std::move(work);
    reductions_.push_back(task.id);
  }

  void write_update() {
    write_norm();
    write_update_tasks(context_);
    write_gathers_of_updated();
  }

  void write_norm() {
    PlanDraft& draft = context_.draft;
    const Plan& plan = context_.plan();
    const StateBuffers& states = context_.states;
    Task& norm = draft.task("norm", TaskKind::kNorm, Lane::kCompute);
    StateWork work;
    work.scalars = states.scalars;
    work.norm_partials = states.norm_partials;
    const StateWork of_all = work;
    for (std::uint32_t g = 0; g < plan.partition.groups.size(); ++g) {
      work.pieces.push_back(state_piece(plan, states, g, 0, plan.partition.groups[g].shard.count()));
      draft.reads(norm, work.pieces.back().gradients);
    }
    draft.reads(norm, states.scalars);
    draft.writes(norm, states.norm_partials);
    work.workspace = states.norm_workspace;
    draft.writes(norm, work.workspace);
    norm.work = std::move(work);
    Task& gather = draft.task("gather-norm", TaskKind::kGatherNorm, Lane::kReduce);
    draft.reads(gather, states.norm_partials);
    draft.writes(gather, states.norm_partials);
    gather.work = of_all;
    Task& finish = draft.task("finish-norm", TaskKind::kFinishNorm, Lane::kCompute);
    draft.reads(finish, states.norm_partials);
    draft.reads(finish, states.scalars);
    draft.writes(finish, states.scalars);
    StateWork reported = of_all;
    reported.host = states.host_report;
    draft.writes(finish, reported.host.scalars);
    draft.writes(finish, reported.host.partials);
    finish.work = std::move(reported);
  }

  /// Stages 1 to 3: parameters that every rank keeps whole are gathered from those who updated them.
  void write_gathers_of_updated() {
    const Plan& plan = context_.plan();
    if (plan.strategy.stage == 0) return;
    std::vector<std::uint32_t> groups;
    for (std::uint32_t g = 0; g < plan.partition.groups.size(); ++g) {
      if (!context_.states.groups[g].parameters_are_shard) groups.push_back(g);
    }
    const auto buckets =
        fill_buckets(plan.partition, groups, plan.strategy.allgather_bucket_size, "--allgather-bucket-size");
    PlanDraft& draft = context_.draft;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      Task& task = draft.task(fmt::format("gather/updated bucket {}", b), TaskKind::kGather, Lane::kGather);
      CollectiveWork work;
      work.kind = CollectiveKind::kAllGather;
      work.dtype = parameter_dtype(plan);
      work.pieces = buckets[b].pieces;
      for (const ShardPiece& piece : work.pieces) {
        work.source.push_back(context_.states.groups[piece.group].parameters);
        work.destination.push_back(work.source.back());
        draft.reads(task, work.source.back());
        draft.writes(task, work.source.back());
      }
      task.work = std::move(work);
    }
  }

  ScheduleContext& context_;
  UnitSequence pass_;
  std::vector<std::uint32_t> completed_;
  std::vector<Bucket> buckets_;
  std::vector<TaskId> reductions_;  ///< of the current step, by bucket
  std::size_t next_bucket_ = 0;
};

}  // namespace

std::vector<std::string> training_step_names(std::uint64_t accumulation) {
  if (accumulation <= 1) return {"only"};
  if (accumulation == 2) return {"first", "last"};
  return {"first", "middle", "last"};
}

void write_training_steps(ScheduleContext& context) {
  TrainingStepWriter writer(context);
  const auto names = training_step_names(context.plan().strategy.accumulation);
  for (std::size_t i = 0; i < names.size(); ++i) writer.write({names[i], i == 0, i + 1 == names.size()});
}

}  // namespace zeroplan::planner
