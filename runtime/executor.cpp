#include "runtime/executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/poison.h"

namespace zeroplan::runtime {
namespace {

using planner::Access;
using planner::Plan;
using planner::Task;

/// Fills so many bytes with NaN; buffers of odd sizes keep their last bytes.
void poison(std::byte* data, std::size_t bytes) {
  fill_with_pattern(data, bytes / 4 * 4);
}

}  // namespace

/// A task's body with what is measured about its memory.
class Executor::TrackedBody final : public TaskBody {
 public:
  TrackedBody(const Plan& plan, const Task& task, std::unique_ptr<TaskBody> body, StepProfile* profile)
      : task_(task),
        body_(std::move(body)),
        profile_(std::holds_alternative<planner::ComputeWork>(task.work) ? nullptr : profile) {
    for (const auto* accesses : {&task.reads, &task.writes}) {
      for (const Access& access : *accesses) {
        const planner::Buffer& buffer = plan.buffers.at(access.buffer);
        Bytes& end = ends_[static_cast<std::size_t>(buffer.tier)];
        end = std::max(end, buffer.offset + access.offset + access.bytes);
      }
    }
  }

  void add_poison(std::byte* data, std::size_t bytes) { poisoned_.push_back({data, bytes}); }

  void run(const StepPosition& position) override {
    try {
      const auto start = profile_ != nullptr ? StepProfile::Clock::now() : StepProfile::Clock::time_point();
      body_->run(position);
      if (profile_ != nullptr) profile_->add(task_.kind, StepProfile::Clock::now() - start);
    } catch (Error& error) {
      error.with(fmt::format("in task {}", task_.key));
      throw;
    }
    for (const ClearedRange& range : poisoned_) poison(range.begin, range.bytes);
    has_run_ = true;
  }

  bool has_run() const { return has_run_; }
  Bytes end(planner::Tier tier) const { return ends_[static_cast<std::size_t>(tier)]; }

 private:
  const Task& task_;
  std::unique_ptr<TaskBody> body_;
  StepProfile* profile_;  ///< of tasks that are no programs, whose ops have their own
  std::array<Bytes, planner::kTierCount> ends_;
  std::vector<ClearedRange> poisoned_;
  bool has_run_ = false;
};

Executor::Executor(const Plan& plan, Collectives& collectives, TaskHooks& hooks, StopSignal& stop,
                   const ExecutorOptions& options)
    : plan_(plan), collectives_(collectives), arenas_(plan), workers_(options.threads), order_(plan) {
  ZP_CHECK(collectives.size() == plan.partition.ranks);
  if (options.profile) profile_.emplace();
  StepProfile* profile = options.profile ? &*profile_ : nullptr;
  const TaskContext context{plan_, arenas_, collectives_, workers_, hooks, profile};
  std::vector<std::vector<TaskBody*>> bodies;
  for (const planner::Step& step : plan.steps) {
    auto& tracked = bodies_.emplace_back();
    auto& plain = bodies.emplace_back();
    for (const Task& task : step.tasks) {
      tracked.push_back(std::make_unique<TrackedBody>(plan, task, make_task_body(context, step, task), profile));
      plain.push_back(tracked.back().get());
      if (task.kind != planner::TaskKind::kSave) continue;
      for (const planner::UpdatePiece& piece : std::get<planner::StateWork>(task.work).pieces) {
        groups_.push_back(resolve_group(plan, piece, collectives.rank(), arenas_));
      }
    }
  }
  if (options.poison) {
    const auto dying = dying_bytes(plan);
    for (std::size_t s = 0; s < dying.size(); ++s) {
      for (std::size_t t = 0; t < dying[s].size(); ++t) {
        for (const Access& access : dying[s][t])
          bodies_[s][t]->add_poison(arenas_.address(access), access.bytes.count());
      }
    }
  }
  for (const planner::Buffer& buffer : plan.buffers) {
    if (buffer.name == planner::kStepScalars) scalars_ = buffer.id;
  }
  if (scalars_ == planner::kNoBuffer) throw Error(ErrorCode::kInvalidInput, "the plan has no buffer 'step scalars'");
  lanes_ = std::make_unique<Lanes>(plan, order_, std::move(bodies), stop);
}

Executor::~Executor() = default;

void Executor::start_phase(std::string_view name, const StepPosition& position) {
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    if (plan_.steps[s].name == name) return lanes_->start_phase(s, position);
  }
  throw Error(ErrorCode::kInvalidInput, fmt::format("the plan has no phase {}", name));
}

kernels::StepScalars& Executor::scalars() {
  return *reinterpret_cast<kernels::StepScalars*>(arenas_.address(scalars_));
}

Bytes Executor::used(planner::Tier tier) const {
  Bytes most;
  for (const auto& step : bodies_) {
    for (const auto& body : step) {
      if (body->has_run()) most = std::max(most, body->end(tier));
    }
  }
  return round_up(most, plan_.tier(tier).alignment);
}

planner::RunRecord Executor::record() const {
  planner::RunRecord record;
  record.source = planner::RecordSource::kMeasured;
  record.gpus = collectives_.size();
  for (const planner::Lane lane : plan_.lanes) {
    LaneTotals totals = lanes_->later_updates(lane);
    if (totals.updates == 0) totals = lanes_->first_update(lane);
    if (totals.updates == 0) continue;
    const auto updates = static_cast<double>(totals.updates);
    record.lane(lane) = {Seconds(totals.busy_s / updates), totals.tasks / totals.updates};
    if (lane == planner::Lane::kCompute) record.exposed_comm = Seconds(totals.comm_wait_s / updates);
  }
  for (const std::size_t step : order_.cycle) {
    for (const Task& task : plan_.steps[step].tasks) planner::count_moved(plan_, task, record.moved);
  }
  for (const auto& [tier, name] : planner::kNamesOf<planner::Tier>) {
    record.tier(tier).planned = plan_.tier(tier).arena;
    record.tier(tier).used = used(tier);
  }
  return record;
}

}  // namespace zeroplan::runtime
