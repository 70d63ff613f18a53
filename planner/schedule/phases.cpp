#include <fmt/format.h>

#include "planner/schedule/schedule_writer.h"
#include "planner/schedule/unit_sequence.h"

namespace zeroplan::planner {
namespace {

/// A task on one group's persistent states.
Task& state_task(ScheduleContext& context, const std::string& key, TaskKind kind, std::uint32_t group) {
  Task& task = context.draft.task(key, kind, Lane::kCompute);
  StateWork work;
  work.pieces.push_back(state_piece(context.plan(), context.states, group, 0, state_extent(context.plan(), group)));
  work.host = context.states.host_staging;
  context.draft.writes(task, work.host.staging);
  task.work = std::move(work);
  return task;
}

}  // namespace

void write_init(ScheduleContext& context) {
  PlanDraft& draft = context.draft;
  draft.begin_step("init");
  const StateBuffers& states = context.states;
  const auto fill = [&](const std::string& key, BufferId target) {
    if (target == kNoBuffer) return;
    Task& task = draft.task(key, TaskKind::kFill, Lane::kCompute);
    BufferWork work;
    work.target = target;
    work.host = states.host_staging;
    draft.writes(task, target);
    draft.writes(task, work.host.staging);
    task.work = work;
  };
  fill("fill/step scalars", states.scalars);
  fill("fill/norm partials", states.norm_partials);
  fill("fill/rotary table", states.rotary_table);
  fill("fill/reduce staging", states.reduce_staging);
  for (std::uint32_t g = 0; g < states.groups.size(); ++g) {
    const std::string& name = context.plan().partition.groups[g].name;
    Task& load = state_task(context, "load/" + name, TaskKind::kLoad, g);
    draft.writes(load, states.groups[g].parameters);
    draft.writes(load, states.groups[g].master);
    for (std::size_t m = 0; m < states.groups[g].moments.size(); ++m) {
      fill(fmt::format("fill/{}/moment {}", name, m + 1), states.groups[g].moments[m]);
    }
  }
}

void write_save(ScheduleContext& context) {
  PlanDraft& draft = context.draft;
  draft.begin_step("save");
  for (std::uint32_t g = 0; g < context.states.groups.size(); ++g) {
    const GroupStates& states = context.states.groups[g];
    Task& task = state_task(context, "save/" + context.plan().partition.groups[g].name, TaskKind::kSave, g);
    draft.reads(task, states.parameters);
    draft.reads(task, states.master);
    for (const BufferId moment : states.moments) draft.reads(task, moment);
  }
}

void write_eval(ScheduleContext& context) {
  PlanDraft& draft = context.draft;
  UnitSequence pass(context, false, "eval / ");
  draft.begin_step("eval");
  Task& input = draft.task("input", TaskKind::kInput, Lane::kCompute);
  BufferWork work;
  work.tokens = pass.buffers().tokens;
  work.labels = pass.buffers().labels;
  work.scalars = context.states.scalars;
  draft.writes(input, work.tokens);
  draft.writes(input, work.labels);
  draft.reads(input, work.scalars);
  draft.writes(input, work.scalars);
  work.host = context.states.host_input;
  for (const BufferId id : {work.host.tokens, work.host.labels, work.host.scalars}) draft.writes(input, id);
  input.work = work;
  const TaskId input_id = input.id;
  pass.write_gathers(-1, input_id);
  for (std::size_t c = 0; c < pass.steps().size(); ++c) {
    const TaskId id = pass.write_compute(c, false).id;
    pass.write_releases(c);
    pass.write_gathers(static_cast<std::int64_t>(c), id);
  }
}

}  // namespace zeroplan::planner
