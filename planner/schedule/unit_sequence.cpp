#include "planner/schedule/unit_sequence.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroplan::planner {
namespace {

using models::UnitKind;

Bytes residual_bytes(const Plan& plan) {
  return Shape{plan.tokens_per_pass(), plan.model.decoder->hidden}.elements() * compute_dtype(plan.training.precision);
}

}  // namespace

std::vector<std::uint32_t> ScheduleContext::gathered_groups(std::size_t unit) const {
  std::vector<std::uint32_t> groups;
  for (const std::size_t g : plan().partition.groups_of_unit[unit]) {
    if (states.groups[g].parameters_are_shard) groups.push_back(static_cast<std::uint32_t>(g));
  }
  return groups;
}

std::vector<std::uint64_t> ScheduleContext::group_elements() const {
  std::vector<std::uint64_t> elements;
  for (const ShardGroup& group : plan().partition.groups) elements.push_back(group.padded.count());
  return elements;
}

GatherLimits ScheduleContext::gather_limits() const {
  const Strategy& s = plan().strategy;
  return {s.prefetch_bucket_size, s.max_live_parameters, s.max_reuse_distance};
}

DType parameter_dtype(const Plan& plan) {
  return compute_dtype(plan.training.precision);
}

std::vector<ComputeStep> compute_sequence(const models::Model& model, bool trains) {
  std::vector<ComputeStep> steps;
  const std::size_t last = model.units.size() - 1;
  for (std::size_t u = 0; u < last; ++u) steps.push_back({u, TaskKind::kForward});
  steps.push_back({last, TaskKind::kLoss});
  if (trains) {
    for (std::size_t u = last; u-- > 0;) steps.push_back({u, TaskKind::kBackward});
  }
  return steps;
}

UnitSequence::UnitSequence(ScheduleContext& context, bool trains, const std::string& prefix)
    : context_(context), trains_(trains), steps_(compute_sequence(context.plan().model, trains)) {
  std::vector<std::vector<std::uint32_t>> uses;
  for (const ComputeStep& step : steps_) uses.push_back(context.gathered_groups(step.unit));
  const auto elements = context.group_elements();
  residencies_ = schedule_gathers(uses, elements, context.gather_limits());

  PlanDraft& draft = context_.draft;
  const Plan& plan = context.plan();
  const auto& units = plan.model.units;
  const Bytes token_bytes = Elements(plan.tokens_per_pass()) * DType::kInt32;
  buffers_.tokens = draft.buffer(prefix + "tokens", token_bytes);
  buffers_.labels = draft.buffer(prefix + "labels", token_bytes);
  buffers_.residuals.assign(units.size(), kNoBuffer);
  buffers_.saved.assign(units.size(), kNoBuffer);
  for (std::size_t u = 1; u < units.size(); ++u) {
    buffers_.residuals[u] =
        draft.buffer(fmt::format("{}{} / residual in", prefix, units[u].name), residual_bytes(plan));
  }
  for (std::size_t u = 0; trains && u < units.size(); ++u) {
    const std::uint32_t program = context_.programs[u].forward;
    if (program == kNoIndex) continue;
    const Bytes saved = plan.programs[program].saved_bytes;
    if (saved > Bytes()) buffers_.saved[u] = draft.buffer(fmt::format("{}{} / saved", prefix, units[u].name), saved);
  }
  if (trains) buffers_.residual_gradient = draft.buffer(prefix + "residual gradient", residual_bytes(plan));
  for (const ComputeStep& step : steps_) {
    const Bytes frame = plan.programs[program_of(step, false)].frame_bytes;
    const std::string name = fmt::format("{}{} / {} frame", prefix, units[step.unit].name, name_of(step.kind));
    buffers_.frames.push_back(frame > Bytes() ? draft.buffer(name, frame) : kNoBuffer);
  }
  for (const Residency& r : residencies_) {
    const std::string name =
        fmt::format("{}{} / gathered {}", prefix, plan.partition.groups[r.group].name, phase_of(r.first_use));
    buffers_.gathered.push_back(draft.buffer(name, Elements(elements[r.group]) * parameter_dtype(plan)));
  }
}

std::string UnitSequence::phase_of(std::size_t position) const {
  return std::string(name_of(steps_[position].kind));
}

std::uint32_t UnitSequence::program_of(const ComputeStep& step, bool adds) const {
  const UnitPrograms& programs = context_.programs[step.unit];
  if (!trains_) return programs.forward_only;
  if (step.kind == TaskKind::kForward) return programs.forward;
  return adds && programs.backward_adding != kNoIndex ? programs.backward_adding : programs.backward;
}

void UnitSequence::write_gathers(std::int64_t after, TaskId trigger) {
  PlanDraft& draft = context_.draft;
  const Plan& plan = context_.plan();
  std::vector<std::uint32_t> groups;
  std::vector<std::size_t> which(plan.partition.groups.size(), 0);
  for (std::size_t i = 0; i < residencies_.size(); ++i) {
    if (residencies_[i].issued_after != after) continue;
    groups.push_back(residencies_[i].group);
    which[residencies_[i].group] = i;
  }
  if (groups.empty()) return;
  const auto buckets =
      fill_buckets(plan.partition, groups, plan.strategy.allgather_bucket_size, "--allgather-bucket-size");
  for (const Bucket& bucket : buckets) {
    const ShardPiece& head = bucket.pieces.front();
    const std::string piece = head.begin == 0 ? "" : fmt::format("/{}", head.begin);
    Task& task = draft.task(fmt::format("gather/{}/{}{}", plan.partition.groups[head.group].name,
                                        phase_of(residencies_[which[head.group]].first_use), piece),
                            TaskKind::kGather, Lane::kGather);
    CollectiveWork work;
    work.kind = CollectiveKind::kAllGather;
    work.dtype = parameter_dtype(plan);
    work.source_is_shard = true;
    for (const ShardPiece& p : bucket.pieces) {
      work.pieces.push_back(p);
      work.source.push_back(context_.states.groups[p.group].parameters);
      work.destination.push_back(buffers_.gathered[which[p.group]]);
      draft.reads(task, work.source.back());
      draft.writes(task, work.destination.back());
    }
    task.waits.push_back(trigger);
    task.work = std::move(work);
  }
}

BufferId UnitSequence::parameters_of(std::uint32_t group, std::size_t position) const {
  const GroupStates& states = context_.states.groups[group];
  if (!states.parameters_are_shard) return states.parameters;
  for (std::size_t i = 0; i < residencies_.size(); ++i) {
    const Residency& r = residencies_[i];
    if (r.group == group && r.first_use <= position && position <= r.last_use) return buffers_.gathered[i];
  }
  return kNoBuffer;
}

bool UnitSequence::writes_first(std::uint32_t group, std::size_t unit) const {
  return context_.plan().partition.groups[group].units.back() == unit;
}

void UnitSequence::clear_padding(ComputeWork& work, std::uint32_t group) const {
  const ShardGroup& g = context_.plan().partition.groups[group];
  const DType dtype = StateBuffers::gradient_dtype(context_.plan());
  Elements end;
  const auto clear_until = [&](Elements begin) {
    if (begin > end)
      work.clears.push_back({context_.states.groups[group].gradients, end * dtype, (begin - end) * dtype});
  };
  for (const PartitionedTensor& tensor : g.tensors) {
    clear_until(tensor.offset);
    end = tensor.offset + tensor.elements;
  }
  clear_until(g.padded);
}

void UnitSequence::bind_groups(Task& task, ComputeWork& work, std::size_t position, bool adds) {
  const PlanDraft& draft = context_.draft;
  const ComputeStep& step = steps_[position];
  const bool has_gradients = trains_ && step.kind != TaskKind::kForward;
  for (const std::size_t g : context_.plan().partition.groups_of_unit[step.unit]) {
    const auto group = static_cast<std::uint32_t>(g);
    GroupBinding binding{group, parameters_of(group, position), kNoBuffer};
    draft.reads(task, binding.parameters);
    if (has_gradients) {
      binding.gradients = context_.states.groups[g].gradients;
      const bool first = writes_first(group, step.unit);
      if (adds || !first) draft.reads(task, binding.gradients);
      draft.writes(task, binding.gradients);
      if (!adds && first) clear_padding(work, group);
    }
    work.groups.push_back(binding);
  }
}

void UnitSequence::bind_places(Task& task, ComputeWork& work, const ComputeStep& step) {
  const PlanDraft& draft = context_.draft;
  for (const models::ProgramTensor& tensor : context_.plan().programs[work.program].tensors) {
    switch (tensor.place) {
      case models::TensorPlace::kInput:
        work.input = buffers_.residuals[step.unit];
        draft.reads(task, work.input);
        break;
      case models::TensorPlace::kOutput:
        work.output = buffers_.residuals[step.unit + 1];
        draft.writes(task, work.output);
        break;
      case models::TensorPlace::kResidualGradient:
        work.residual_gradient = buffers_.residual_gradient;
        if (step.kind == TaskKind::kBackward) draft.reads(task, work.residual_gradient);
        if (context_.plan().model.units[step.unit].kind != UnitKind::kEmbedding)
          draft.writes(task, work.residual_gradient);
        break;
      case models::TensorPlace::kSaved:
        work.saved = buffers_.saved[step.unit];
        if (step.kind == TaskKind::kForward) {
          draft.writes(task, work.saved);
        } else {
          draft.reads(task, work.saved);
        }
        break;
      case models::TensorPlace::kTokens:
        work.tokens = buffers_.tokens;
        draft.reads(task, work.tokens);
        break;
      case models::TensorPlace::kLabels:
        work.labels = buffers_.labels;
        draft.reads(task, work.labels);
        break;
      case models::TensorPlace::kScalars:
        work.scalars = context_.states.scalars;
        draft.reads(task, work.scalars);
        if (step.kind == TaskKind::kLoss) draft.writes(task, work.scalars);
        break;
      case models::TensorPlace::kRotaryTable:
        work.rotary_table = context_.states.rotary_table;
        draft.reads(task, work.rotary_table);
        break;
      case models::TensorPlace::kParameter:
      case models::TensorPlace::kParameterGradient:
      case models::TensorPlace::kTemporary:
        break;
    }
  }
}

Task& UnitSequence::write_compute(std::size_t position, bool adds) {
  const ComputeStep& step = steps_[position];
  PlanDraft& draft = context_.draft;
  Task& task = draft.task(fmt::format("{}/{}", name_of(step.kind), context_.plan().model.units[step.unit].name),
                          step.kind, Lane::kCompute);
  ComputeWork work;
  work.unit = static_cast<std::uint32_t>(step.unit);
  work.program = program_of(step, adds);
  task.unit = work.unit;
  task.program = work.program;
  task.frame = buffers_.frames[position];
  bind_groups(task, work, position, adds);
  bind_places(task, work, step);
  draft.writes(task, task.frame);
  task.work = std::move(work);
  return task;
}

void UnitSequence::write_releases(std::size_t position) {
  for (const Residency& r : residencies_) {
    if (r.last_use != position) continue;
    Task& task = context_.draft.task(
        fmt::format("release/{}/{}", context_.plan().partition.groups[r.group].name, phase_of(position)),
        TaskKind::kRelease, Lane::kCompute);
    BufferWork work;
    work.group = r.group;
    task.work = work;
  }
}

}  // namespace zeroplan::planner
