#include "runtime/device/device_ranks.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"
#include "runtime/step_scope.h"

namespace zeroplan::runtime {
namespace {

using planner::Task;
using planner::TaskKind;

kernels::Device& require(kernels::Device* device) {
  if (device != nullptr) return *device;
  throw Error(ErrorCode::kDevice, "the plan is for the back end cuda, and no device was opened")
      .hint("make the plan with --backend cpu");
}

/// The first updates are enqueued call by call: one to warm up, one whose tasks are timed.
constexpr std::uint64_t kUpdatesBeforeGraphs = 2;

}  // namespace

DeviceRanks::DeviceRanks(const planner::Plan& plan, const MakeHooks& make_hooks, kernels::Device* device,
                         bool use_graphs)
    : plan_(plan), device_(require(device)), use_graphs_(use_graphs), context_{plan, device_, ranks_} {
  if (plan.training.comm != planner::CommKind::kLoopback) {
    throw Error(ErrorCode::kUnsupported, fmt::format("back end cuda with comm {}: this build has loopback",
                                                     planner::name_of(plan.training.comm)))
        .hint("make the plan with --comm loopback");
  }
  device_.make_current();
  for (std::uint64_t r = 0; r < plan.partition.ranks; ++r) {
    ranks_.emplace_back();
    ranks_.back().rank = r;
    ranks_.back().hooks = make_hooks(r);
  }
  allocate();
  program_ = std::make_unique<DeviceProgram>(context_);
  const auto at_start = device_.memory_at_start();
  const std::size_t arenas = (plan.tier(planner::Tier::kDevice).arena * ranks_.size()).count();
  const std::size_t taken = at_start.free - std::min(at_start.free, device_.memory().free);
  library_bytes_ = taken > arenas ? taken - arenas : 0;
  norm_ended_ = device_.make_event(false);
  cut_update();
}

DeviceRanks::~DeviceRanks() {
  if (thread_.joinable()) thread_.join();
}

void DeviceRanks::allocate() {
  const Bytes arena = plan_.tier(planner::Tier::kDevice).arena;
  const Bytes needed = arena * ranks_.size();
  const Bytes free(device_.memory().free);
  if (needed > free) {
    throw Error(ErrorCode::kDoesNotFit,
                fmt::format("the plan's arena{} {}, and {} of {} are free on {}: {} ({} bytes) are missing",
                            ranks_.size() == 1 ? " takes" : fmt::format("s of {} ranks take", ranks_.size()),
                            format_size(needed), format_size(free), format_size(Bytes(device_.memory().total)),
                            device_.description().name, format_size(needed - free), (needed - free).count()))
        .hint("plan for less memory (--budget, --micro-batch, --recompute full), or free the card");
  }
  for (DeviceRank& rank : ranks_) rank.arenas = std::make_unique<Arenas>(plan_, &device_);
}

void DeviceRanks::cut_update() {
  const TaskOrder& order = program_->order();
  for (std::size_t micro = 0; micro < order.cycle.size(); ++micro) {
    const std::size_t step = order.cycle[micro];
    const auto& tasks = plan_.steps[step].tasks;
    const auto norm =
        std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.kind == TaskKind::kFinishNorm; });
    if (norm == tasks.end()) {
      to_norm_.push_back({step, micro, 0, tasks.size()});
      continue;
    }
    const auto cut = static_cast<std::size_t>(norm - tasks.begin()) + 1;
    to_norm_.push_back({step, micro, 0, cut});
    to_end_.push_back({step, micro, cut, tasks.size()});
  }
  ZP_CHECK(to_end_.size() == 1);
}

void DeviceRanks::run_phase(std::string_view name, const StepPosition& position) {
  device_.make_current();
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const planner::Step& step = plan_.steps[s];
    if (step.name != name) continue;
    for (std::size_t t = 0; t < step.tasks.size(); ++t) program_->task(s, t).prepare(position);
    program_->enqueue({{s, 0, 0, step.tasks.size()}}, position.update);
    program_->synchronize();
    if (name == "eval") take_scalars(s);
    return;
  }
  throw Error(ErrorCode::kInvalidInput, fmt::format("the plan has no phase {}", name));
}

void DeviceRanks::take_scalars(std::size_t step) {
  for (const Task& task : plan_.steps[step].tasks) {
    if (task.kind != TaskKind::kInput) continue;
    const auto& work = std::get<planner::BufferWork>(task.work);
    kernels::DeviceStream& stream = program_->stream(planner::Lane::kCompute);
    for (DeviceRank& rank : ranks_) {
      std::byte* host = rank.arenas->address(work.host.scalars);
      stream.copy(host, rank.arenas->address(work.scalars), sizeof(kernels::StepScalars));
      stream.synchronize();
      rank.scalars = *reinterpret_cast<const kernels::StepScalars*>(host);
    }
  }
}

void DeviceRanks::start_updates(std::uint64_t first_update, const UpdateGate& gate) {
  thread_ = std::jthread([this, first_update, &gate] {
    try {
      device_.make_current();
      run_updates(first_update, gate);
    } catch (...) {
      stop_.raise(std::current_exception());
    }
  });
}

void DeviceRanks::finish_updates() {
  if (thread_.joinable()) thread_.join();
  if (const std::exception_ptr error = stop_.error()) std::rethrow_exception(error);
}

void DeviceRanks::run_updates(std::uint64_t first_update, const UpdateGate& gate) {
  for (std::uint64_t number = 0; gate.admits(number) && !stop_.raised(); ++number) run_update(first_update + number);
  program_->synchronize();
}

void DeviceRanks::prepare_inputs(std::uint64_t update) {
  for (const TaskRange& range : to_norm_) {
    for (std::size_t t = range.first; t < range.last; ++t) {
      if (plan_.steps[range.step].tasks[t].kind == TaskKind::kInput)
        program_->task(range.step, t).prepare({update, range.micro_step});
    }
  }
}

void DeviceRanks::run_update(std::uint64_t update) {
  prepare_inputs(update);
  const bool is_timed = updates_run_ + 1 == kUpdatesBeforeGraphs;
  const bool is_graph = use_graphs_ && updates_run_ >= kUpdatesBeforeGraphs;
  if (is_graph && graph_to_norm_ == nullptr) {
    program_->synchronize();
    graph_to_norm_ = program_->capture(to_norm_);
    graph_to_end_ = program_->capture(to_end_);
  }
  kernels::DeviceStream& compute = program_->stream(planner::Lane::kCompute);
  const auto run = [&](const std::vector<TaskRange>& segment, kernels::DeviceGraph* graph) {
    if (is_graph) {
      compute.launch(*graph);
    } else {
      program_->enqueue(segment, update);
    }
  };
  if (is_timed) program_->start_timing();
  run(to_norm_, graph_to_norm_.get());
  compute.record(*norm_ended_);
  run(to_end_, graph_to_end_.get());
  if (is_timed) lane_seconds_ = program_->lane_seconds();
  // The update's tail still runs while the host reports, and prepares the next one.
  norm_ended_->wait();
  ++updates_run_;
  const TaskRange& range = to_norm_.back();
  program_->task(range.step, range.last - 1).finish({update, range.micro_step});
}

void DeviceRanks::restore(std::size_t rank, const std::function<void(const GroupState&)>& write) {
  device_.make_current();
  kernels::DeviceStream& stream = program_->stream(planner::Lane::kCompute);
  for (const planner::Step& step : plan_.steps) {
    for (const Task& task : step.tasks) {
      if (task.kind != TaskKind::kSave) continue;
      const auto& work = std::get<planner::StateWork>(task.work);
      const GroupStaging staging(work.host.staging);
      for (const planner::UpdatePiece& piece : work.pieces) {
        staging.write(ranks_.at(rank), resolve_group(plan_, piece, ranks_[rank].rank, *ranks_[rank].arenas), stream,
                      write);
      }
    }
  }
}

Bytes DeviceRanks::used(std::size_t, planner::Tier tier) const {
  Bytes most;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    for (std::size_t t = 0; t < plan_.steps[s].tasks.size(); ++t) {
      if (!program_->has_run(s, t)) continue;
      const Task& task = plan_.steps[s].tasks[t];
      for (const auto* accesses : {&task.reads, &task.writes}) {
        for (const planner::Access& access : *accesses) {
          const planner::Buffer& buffer = plan_.buffers.at(access.buffer);
          if (buffer.tier == tier) most = std::max(most, buffer.offset + access.offset + access.bytes);
        }
      }
    }
  }
  return round_up(most, plan_.tier(tier).alignment);
}

Bytes DeviceRanks::written(std::size_t rank, planner::Tier tier) const {
  device_.make_current();
  return ranks_.at(rank).arenas->tier(tier).written();
}

planner::RunRecord DeviceRanks::record() const {
  planner::RunRecord record;
  record.source = planner::RecordSource::kMeasured;
  record.gpus = ranks_.size();
  const TaskOrder& order = program_->order();
  for (const planner::Lane lane : plan_.lanes) {
    const auto l = static_cast<std::size_t>(lane);
    std::uint64_t tasks = 0;
    for (const std::size_t step : order.cycle) tasks += order.steps[step].tasks_of_lane[l];
    record.lane(lane) = {Seconds(lane_seconds_[l]), tasks};
  }
  for (const std::size_t step : order.cycle) {
    for (const Task& task : plan_.steps[step].tasks) planner::count_moved(plan_, task, record.moved);
  }
  for (const auto& [tier, name] : planner::kNamesOf<planner::Tier>) {
    record.tier(tier).planned = plan_.tier(tier).arena;
    record.tier(tier).used = used(0, tier);
  }
  return record;
}

std::optional<DeviceUse> DeviceRanks::device_use() const {
  const auto start = device_.memory_at_start();
  const auto now = device_.memory();
  DeviceUse use;
  use.at_start = start.total - start.free;
  use.libraries = library_bytes_;
  use.arenas = (plan_.tier(planner::Tier::kDevice).arena * ranks_.size()).count();
  use.now = now.total - now.free;
  return use;
}

}  // namespace zeroplan::runtime
