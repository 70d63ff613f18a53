#include "runtime/device/device_tasks.h"

#include <cstddef>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "runtime/device/device_collectives.h"
#include "runtime/rotary_settings.h"

namespace zeroplan::runtime {
namespace {

using kernels::DeviceCall;
using kernels::DeviceStream;
using planner::Task;
using planner::TaskKind;

class NothingTask final : public DeviceTask {
 public:
  void enqueue(DeviceStream&, const StepPosition&) override {}
};

NormPartial* partials_of(const DeviceContext& context, const DeviceRank& rank, planner::BufferId buffer) {
  ZP_CHECK(rank.arenas->size(buffer) >= Bytes(sizeof(NormPartial)) * context.ranks.size());
  return reinterpret_cast<NormPartial*>(rank.arenas->address(buffer));
}

kernels::StepScalars* scalars_of(const DeviceRank& rank, planner::BufferId buffer) {
  ZP_CHECK(rank.arenas->size(buffer) >= Bytes(sizeof(kernels::StepScalars)));
  return reinterpret_cast<kernels::StepScalars*>(rank.arenas->address(buffer));
}

std::unique_ptr<DeviceTask> make_compute(const DeviceContext& context, const Task& task) {
  auto calls = std::make_unique<DeviceCalls>();
  const auto& ops = context.plan.programs.at(std::get<planner::ComputeWork>(task.work).program).ops;
  for (const DeviceRank& rank : context.ranks) {
    const BoundProgram program = bind_program(context.plan, task, *rank.arenas);
    // A rank's padding is cleared before its own first call; all of it before any rank's is the same.
    calls->clears.insert(calls->clears.end(), program.clears.begin(), program.clears.end());
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      DeviceCall call;
      call.op = std::visit([](const auto& op) { return kernels::DeviceOp(op); }, program.ops[i]);
      call.workspace = program.scratch[i].begin;
      call.workspace_bytes = program.scratch[i].bytes;
      prepare_call(context, ops.at(i).name, call);
      calls->calls.push_back(call);
    }
  }
  return calls;
}

/// Each rank's sum of squares over its shards, and its loss.
class NormTask final : public DeviceTask {
 public:
  NormTask(const DeviceContext& context, const planner::StateWork& work) {
    for (const DeviceRank& rank : context.ranks) {
      NormPartial* partial = partials_of(context, rank, work.norm_partials) + rank.rank;
      bool adds = false;
      for (const planner::UpdatePiece& piece : work.pieces) {
        const StatePiece p = resolve_piece(context.plan, piece, rank.rank, *rank.arenas, true);
        DeviceCall call;
        call.op = kernels::SquaresInto{
            {.dtype = p.gradient_dtype, .count = p.count, .x = p.gradients}, &partial->sum_of_squares, adds};
        call.workspace = rank.arenas->address(work.workspace);
        call.workspace_bytes = rank.arenas->size(work.workspace).count();
        prepare_call(context, "norm", call);
        squares_.calls.push_back(call);
        adds = true;
      }
      losses_.push_back({&scalars_of(rank, work.scalars)->loss_sum, &partial->loss_sum});
    }
  }
  void enqueue(DeviceStream& stream, const StepPosition& position) override {
    squares_.enqueue(stream, position);
    for (const auto& [from, to] : losses_) stream.copy(to, from, sizeof(double));
  }

 private:
  DeviceCalls squares_;
  std::vector<std::pair<const double*, double*>> losses_;
};

/// Adds the entries in rank order; the scalars then go to the host, and with them the losses.
class FinishNormTask final : public DeviceTask {
 public:
  FinishNormTask(const DeviceContext& context, const planner::StateWork& work) : context_(context) {
    for (DeviceRank& rank : context.ranks) {
      Entry entry{&rank, scalars_of(rank, work.scalars), partials_of(context, rank, work.norm_partials),
                  scalars_of(rank, work.host.scalars), partials_of(context, rank, work.host.partials)};
      entries_.push_back(entry);
    }
  }

  void enqueue(DeviceStream& stream, const StepPosition&) override {
    const std::size_t ranks = context_.ranks.size();
    for (const Entry& e : entries_) {
      DeviceCall call;
      call.op =
          kernels::FinishNorm{e.scalars, &e.partials->sum_of_squares, sizeof(NormPartial) / sizeof(double), ranks};
      stream.enqueue(call);
      stream.copy(e.host_scalars, e.scalars, sizeof(kernels::StepScalars));
      stream.copy(e.host_partials, e.partials, sizeof(NormPartial) * ranks);
    }
  }

  void finish(const StepPosition& position) override {
    for (const Entry& e : entries_) {
      e.rank->scalars = *e.host_scalars;
      e.rank->scalars.loss_sum = 0;
      for (std::size_t r = 0; r < context_.ranks.size(); ++r) e.rank->scalars.loss_sum += e.host_partials[r].loss_sum;
      e.rank->hooks->finished(position, e.rank->scalars);
    }
  }

 private:
  struct Entry {
    DeviceRank* rank;
    kernels::StepScalars* scalars;
    NormPartial* partials;
    kernels::StepScalars* host_scalars;
    NormPartial* host_partials;
  };
  const DeviceContext context_;
  std::vector<Entry> entries_;
};

class InputTask final : public DeviceTask {
 public:
  InputTask(const DeviceContext& context, const planner::BufferWork& work, bool trains)
      : tokens_(context.plan.tokens_per_pass()), bytes_((Elements(tokens_) * DType::kInt32).count()), trains_(trains) {
    const std::uint64_t passes = trains ? context.plan.strategy.accumulation : 1;
    for (DeviceRank& rank : context.ranks) {
      const Arenas& arenas = *rank.arenas;
      ZP_CHECK(arenas.size(work.tokens) >= Bytes(bytes_) && arenas.size(work.labels) >= Bytes(bytes_));
      ZP_CHECK(arenas.size(work.host.tokens) >= Bytes(bytes_) * passes);
      ZP_CHECK(arenas.size(work.host.labels) >= Bytes(bytes_) * passes);
      Entry entry{&rank, arenas.address(work.tokens), arenas.address(work.labels)};
      entry.host_tokens = reinterpret_cast<std::int32_t*>(arenas.address(work.host.tokens));
      entry.host_labels = reinterpret_cast<std::int32_t*>(arenas.address(work.host.labels));
      if (work.scalars != planner::kNoBuffer) {
        entry.scalars = scalars_of(rank, work.scalars);
        entry.host_scalars = scalars_of(rank, work.host.scalars);
      }
      entries_.push_back(entry);
    }
  }

  void prepare(const StepPosition& position) override {
    for (const Entry& e : entries_) {
      InputTarget target;
      target.tokens = e.host_tokens + place_of(position);
      target.labels = e.host_labels + place_of(position);
      target.trains = trains_;
      if (e.host_scalars != nullptr) {
        *e.host_scalars = e.rank->scalars;
        target.scalars = e.host_scalars;
      }
      e.rank->hooks->input(position, target);
    }
  }

  void enqueue(DeviceStream& stream, const StepPosition& position) override {
    for (const Entry& e : entries_) {
      stream.copy(e.tokens, e.host_tokens + place_of(position), bytes_);
      stream.copy(e.labels, e.host_labels + place_of(position), bytes_);
      if (e.scalars != nullptr) stream.copy(e.scalars, e.host_scalars, sizeof(kernels::StepScalars));
    }
  }

 private:
  struct Entry {
    DeviceRank* rank;
    std::byte* tokens;
    std::byte* labels;
    std::int32_t* host_tokens = nullptr;
    std::int32_t* host_labels = nullptr;
    kernels::StepScalars* scalars = nullptr;
    kernels::StepScalars* host_scalars = nullptr;
  };
  /// Elements before those of a micro-step: the host has room for all of an update.
  std::size_t place_of(const StepPosition& position) const { return trains_ ? position.micro_step * tokens_ : 0; }

  std::size_t tokens_;
  std::size_t bytes_;
  bool trains_;
  std::vector<Entry> entries_;
};

/// Zeroes a buffer; the rotary table and the step scalars get their first values.
class FillTask final : public DeviceTask {
 public:
  FillTask(const DeviceContext& context, const planner::BufferWork& work) : context_(context), work_(work) {}
  void enqueue(DeviceStream& stream, const StepPosition&) override {
    const planner::Buffer& buffer = context_.plan.buffers.at(work_.target);
    for (DeviceRank& rank : context_.ranks) {
      std::byte* target = rank.arenas->address(work_.target);
      const bool is_table = buffer.name == "rotary table";
      if (!is_table && buffer.name != planner::kStepScalars) {
        stream.fill(target, std::byte{0}, buffer.bytes.count());
        continue;
      }
      ZP_CHECK(rank.arenas->size(work_.host.staging) >= buffer.bytes);
      std::byte* staging = rank.arenas->address(work_.host.staging);
      std::memset(staging, 0, buffer.bytes.count());
      if (is_table) {
        fill_table(reinterpret_cast<float*>(staging), buffer.bytes);
      } else {
        rank.scalars = kernels::StepScalars();
        std::memcpy(staging, &rank.scalars, sizeof(rank.scalars));
      }
      stream.copy(target, staging, buffer.bytes.count());
      stream.synchronize();
    }
  }

 private:
  void fill_table(float* values, Bytes room) const {
    kernels::RotaryTable table = rotary_settings(context_.plan.model.decoder.value(), context_.plan.training.seq);
    ZP_CHECK(Elements(table.positions * table.head_size) * DType::kFp32 <= room);
    table.table = values;
    kernels::fill_rotary_table(table);
  }

  const DeviceContext context_;
  planner::BufferWork work_;
};

/// kLoad and kSave.
class GroupTask final : public DeviceTask {
 public:
  GroupTask(const DeviceContext& context, const Task& task)
      : context_(context), work_(std::get<planner::StateWork>(task.work)), saves_(task.kind == TaskKind::kSave) {}
  void enqueue(DeviceStream& stream, const StepPosition&) override {
    const GroupStaging staging(work_.host.staging);
    for (const DeviceRank& rank : context_.ranks) {
      for (const planner::UpdatePiece& piece : work_.pieces) {
        GroupState group = resolve_group(context_.plan, piece, rank.rank, *rank.arenas);
        if (saves_) {
          // A checkpoint has the master weights where there are some.
          if (group.master != nullptr) group.parameters = nullptr;
          staging.read(rank, group, stream, [&](const GroupState& state) { rank.hooks->save(state); });
        } else {
          group.moments.clear();  // filled with zeros by tasks of their own
          staging.write(rank, group, stream, [&](const GroupState& state) { rank.hooks->load(state); });
        }
      }
    }
  }

 private:
  const DeviceContext context_;
  planner::StateWork work_;
  bool saves_;
};

class TableGather final : public DeviceTask {
 public:
  TableGather(const std::vector<std::byte*>& tables, std::size_t bytes_of_rank)
      : tables_(tables), bytes_(bytes_of_rank) {}
  void enqueue(DeviceStream& stream, const StepPosition&) override {
    for (std::size_t to = 0; to < tables_.size(); ++to) {
      for (std::size_t from = 0; from < tables_.size(); ++from) {
        if (from != to) stream.copy(tables_[to] + from * bytes_, tables_[from] + from * bytes_, bytes_);
      }
    }
  }

 private:
  std::vector<std::byte*> tables_;
  std::size_t bytes_;
};

}  // namespace

void DeviceCalls::enqueue(DeviceStream& stream, const StepPosition&) {
  for (const ClearedRange& range : clears) stream.fill(range.begin, std::byte{0}, range.bytes);
  for (const DeviceCall& call : calls) stream.enqueue(call);
}

void prepare_call(const DeviceContext& context, const std::string& what, const DeviceCall& call) {
  const std::size_t needed = context.device.workspace_bytes(call.op);
  if (needed > call.workspace_bytes) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} has {} bytes of workspace, its kernel on this device needs {}", what,
                            call.workspace_bytes, needed))
        .hint("the plan was made by another version of zeroplan: make it again");
  }
  context.device.prepare(call);
}

std::unique_ptr<DeviceTask> make_table_gather(const std::vector<std::byte*>& tables, std::size_t bytes_of_rank) {
  return std::make_unique<TableGather>(tables, bytes_of_rank);
}

void GroupStaging::each_state(const DeviceRank& rank, const GroupState& group, DeviceStream& stream,
                              Direction direction, const std::function<void(const GroupState&)>& use) const {
  std::byte* const staging = rank.arenas->address(staging_);
  const auto pass = [&](std::byte* data, Elements count, DType dtype, const std::function<void(GroupState&)>& place) {
    if (data == nullptr) return;
    const std::size_t bytes = (count * dtype).count();
    ZP_CHECK(rank.arenas->size(staging_) >= Bytes(bytes));
    GroupState part = group;
    part.parameters = nullptr;
    part.master = nullptr;
    std::fill(part.moments.begin(), part.moments.end(), nullptr);
    place(part);
    if (direction == Direction::kFromDevice) {
      stream.copy(staging, data, bytes);
      stream.synchronize();
    }
    use(part);
    if (direction == Direction::kToDevice) {
      stream.copy(data, staging, bytes);
      stream.synchronize();
    }
  };
  pass(group.parameters, group.parameters_count, group.parameter_dtype,
       [&](GroupState& part) { part.parameters = staging; });
  pass(reinterpret_cast<std::byte*>(group.master), group.states_count, DType::kFp32,
       [&](GroupState& part) { part.master = reinterpret_cast<float*>(staging); });
  for (std::size_t m = 0; m < group.moments.size(); ++m) {
    pass(group.moments[m], group.states_count, group.moment_dtype,
         [&](GroupState& part) { part.moments[m] = staging; });
  }
}

void GroupStaging::write(const DeviceRank& rank, const GroupState& group, DeviceStream& stream,
                         const std::function<void(const GroupState&)>& use) const {
  each_state(rank, group, stream, Direction::kToDevice, use);
}

void GroupStaging::read(const DeviceRank& rank, const GroupState& group, DeviceStream& stream,
                        const std::function<void(const GroupState&)>& use) const {
  each_state(rank, group, stream, Direction::kFromDevice, use);
}

std::unique_ptr<DeviceTask> make_device_task(const DeviceContext& context, const planner::Step& step,
                                             const Task& task) {
  switch (task.kind) {
    case TaskKind::kForward:
    case TaskKind::kLoss:
    case TaskKind::kBackward:
      return make_compute(context, task);
    case TaskKind::kGather:
    case TaskKind::kReduce:
      return make_device_collective(context, task);
    case TaskKind::kNorm:
      return std::make_unique<NormTask>(context, std::get<planner::StateWork>(task.work));
    case TaskKind::kGatherNorm: {
      std::vector<std::byte*> tables;
      for (const DeviceRank& rank : context.ranks) {
        tables.push_back(reinterpret_cast<std::byte*>(
            partials_of(context, rank, std::get<planner::StateWork>(task.work).norm_partials)));
      }
      return make_table_gather(tables, sizeof(NormPartial));
    }
    case TaskKind::kFinishNorm:
      return std::make_unique<FinishNormTask>(context, std::get<planner::StateWork>(task.work));
    case TaskKind::kMoments:
    case TaskKind::kTensorNorms:
    case TaskKind::kGatherTensorNorms:
    case TaskKind::kTrustRatios:
    case TaskKind::kUpdate:
      return make_device_update(context, task);
    case TaskKind::kInput:
      return std::make_unique<InputTask>(context, std::get<planner::BufferWork>(task.work), step.is_training());
    case TaskKind::kFill:
      return std::make_unique<FillTask>(context, std::get<planner::BufferWork>(task.work));
    case TaskKind::kLoad:
    case TaskKind::kSave:
      return std::make_unique<GroupTask>(context, task);
    case TaskKind::kRelease:
      return std::make_unique<NothingTask>();
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("task {} is of a kind that this runtime lacks", task.key));
}

}  // namespace zeroplan::runtime
