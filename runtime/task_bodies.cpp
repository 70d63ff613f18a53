#include "runtime/task_bodies.h"

#include <cstring>

#include <fmt/format.h>

#include "kernels/ranges.h"
#include "runtime/rotary_settings.h"
#include "runtime/update_bodies.h"

namespace zeroplan::runtime {
namespace {

using planner::Task;
using planner::TaskKind;

static_assert(Bytes(sizeof(kernels::StepScalars)) <= planner::kStepScalarsBytes);

Channel channel_of(const Task& task) {
  return task.lane == planner::Lane::kGather ? Channel::kGather : Channel::kReduce;
}

NormPartial* partials_at(const TaskContext& context, planner::BufferId buffer) {
  ZP_CHECK(context.arenas.size(buffer) >= Bytes(sizeof(NormPartial) * context.collectives.size()));
  return reinterpret_cast<NormPartial*>(context.arenas.address(buffer));
}

class NothingBody final : public TaskBody {
 public:
  void run(const StepPosition&) override {}
};

class ComputeBody final : public TaskBody {
 public:
  ComputeBody(const TaskContext& context, const Task& task)
      : program_(bind_program(context.plan, task, context.arenas)),
        workers_(context.workers),
        profile_(context.profile) {}
  void run(const StepPosition&) override { program_.run(workers_, profile_); }

 private:
  BoundProgram program_;
  kernels::Workers& workers_;
  StepProfile* profile_;
};

class CollectiveBody final : public TaskBody {
 public:
  CollectiveBody(const TaskContext& context, const Task& task)
      : kind_(std::get<planner::CollectiveWork>(task.work).kind),
        channel_(channel_of(task)),
        collectives_(context.collectives) {
    const auto& work = std::get<planner::CollectiveWork>(task.work);
    call_.dtype = work.dtype;
    call_.source_is_shard = work.source_is_shard;
    call_.destination_is_shard = work.destination_is_shard;
    call_.accumulate = work.accumulate;
    if (work.staging != planner::kNoBuffer) {
      call_.staging = context.arenas.address(work.staging);
      call_.staging_bytes = context.arenas.size(work.staging).count();
    }
    for (std::size_t p = 0; p < work.pieces.size(); ++p) {
      const planner::ShardPiece& piece = work.pieces[p];
      const planner::ShardGroup& group = context.plan.partition.groups.at(piece.group);
      check(context, work.source.at(p), work.source_is_shard ? group.shard : group.padded, work.dtype);
      check(context, work.destination.at(p), work.destination_is_shard ? group.shard : group.padded, work.dtype);
      ZP_CHECK(piece.begin <= piece.end && piece.end <= group.shard.count());
      call_.pieces.push_back({context.arenas.address(work.source[p]), context.arenas.address(work.destination[p]),
                              group.shard.count(), piece.begin, piece.end});
    }
  }

  void run(const StepPosition&) override {
    switch (kind_) {
      case planner::CollectiveKind::kAllGather:
        return collectives_.all_gather(channel_, call_);
      case planner::CollectiveKind::kReduceScatter:
        return collectives_.reduce_scatter(channel_, call_);
      case planner::CollectiveKind::kAllReduce:
        return collectives_.all_reduce(channel_, call_);
    }
  }

 private:
  static void check(const TaskContext& context, planner::BufferId buffer, Elements elements, DType dtype) {
    if (elements * dtype > context.arenas.size(buffer)) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("buffer {} is smaller than the group that a collective moves",
                                                        context.plan.buffers.at(buffer).name));
    }
  }

  planner::CollectiveKind kind_;
  Channel channel_;
  Collectives& collectives_;
  CollectiveCall call_;
};

/// This rank's sum of squares, over its shards only at every stage, and its loss.
class NormBody final : public TaskBody {
 public:
  NormBody(const TaskContext& context, const planner::StateWork& work)
      : workers_(context.workers),
        scalars_(scalars_at(context, work.scalars)),
        partial_(partials_at(context, work.norm_partials) + context.collectives.rank()) {
    for (const planner::UpdatePiece& piece : work.pieces) {
      pieces_.push_back(resolve_piece(context.plan, piece, context.collectives.rank(), context.arenas, true));
    }
  }
  void run(const StepPosition&) override {
    double sum = 0;
    for (const StatePiece& piece : pieces_) {
      sum += kernels::cpu::sum_of_squares({.dtype = piece.gradient_dtype, .count = piece.count, .x = piece.gradients},
                                          workers_);
    }
    *partial_ = {sum, scalars_->loss_sum};
  }

 private:
  kernels::Workers& workers_;
  kernels::StepScalars* scalars_;
  NormPartial* partial_;
  std::vector<StatePiece> pieces_;
};

/// Every rank's bytes come to all, on the lane of reductions.
class GatherBytesBody final : public TaskBody {
 public:
  GatherBytesBody(const TaskContext& context, void* all, std::uint64_t bytes_of_rank)
      : collectives_(context.collectives) {
    call_.dtype = DType::kUint8;
    call_.pieces.push_back({all, all, bytes_of_rank, 0, bytes_of_rank});
  }
  void run(const StepPosition&) override { collectives_.all_gather(Channel::kReduce, call_); }

 private:
  Collectives& collectives_;
  CollectiveCall call_;
};

/// Sums the entries in rank order, so that every rank gets the same bits.
class FinishNormBody final : public TaskBody {
 public:
  FinishNormBody(const TaskContext& context, const planner::StateWork& work)
      : hooks_(context.hooks),
        scalars_(scalars_at(context, work.scalars)),
        partials_(partials_at(context, work.norm_partials)),
        sums_(context.collectives.size()) {}
  void run(const StepPosition& position) override {
    double loss = 0;
    for (std::size_t r = 0; r < sums_.size(); ++r) {
      sums_[r] = partials_[r].sum_of_squares;
      loss += partials_[r].loss_sum;
    }
    scalars_->loss_sum = loss;
    kernels::finish_norm(*scalars_, sums_);
    kernels::advance_optimizer_step(*scalars_);
    hooks_.finished(position, *scalars_);
  }

 private:
  TaskHooks& hooks_;
  kernels::StepScalars* scalars_;
  const NormPartial* partials_;
  std::vector<double> sums_;
};

class InputBody final : public TaskBody {
 public:
  InputBody(const TaskContext& context, const planner::BufferWork& work, bool trains) : hooks_(context.hooks) {
    const Bytes needed = Elements(context.plan.tokens_per_pass()) * DType::kInt32;
    ZP_CHECK(context.arenas.size(work.tokens) >= needed && context.arenas.size(work.labels) >= needed);
    target_.tokens = reinterpret_cast<std::int32_t*>(context.arenas.address(work.tokens));
    target_.labels = reinterpret_cast<std::int32_t*>(context.arenas.address(work.labels));
    target_.scalars = scalars_at(context, work.scalars);
    target_.trains = trains;
  }
  void run(const StepPosition& position) override { hooks_.input(position, target_); }

 private:
  TaskHooks& hooks_;
  InputTarget target_;
};

/// Zeroes a buffer; the rotary table and the step scalars get their first values.
class FillBody final : public TaskBody {
 public:
  FillBody(const TaskContext& context, planner::BufferId target)
      : plan_(context.plan), buffer_(context.plan.buffers.at(target)), data_(context.arenas.address(target)) {}
  void run(const StepPosition&) override {
    if (buffer_.name == "rotary table") {
      kernels::RotaryTable table = rotary_settings(plan_.model.decoder.value(), plan_.training.seq);
      table.table = reinterpret_cast<float*>(data_);
      ZP_CHECK(Elements(table.positions * table.head_size) * DType::kFp32 <= buffer_.bytes);
      kernels::fill_rotary_table(table);
      return;
    }
    std::memset(data_, 0, buffer_.bytes.count());
    if (buffer_.name == planner::kStepScalars) new (data_) kernels::StepScalars();
  }

 private:
  const planner::Plan& plan_;
  const planner::Buffer& buffer_;
  std::byte* data_;
};

/// kLoad and kSave.
class GroupBody final : public TaskBody {
 public:
  GroupBody(const TaskContext& context, const Task& task)
      : hooks_(context.hooks), saves_(task.kind == TaskKind::kSave) {
    for (const planner::UpdatePiece& piece : std::get<planner::StateWork>(task.work).pieces) {
      groups_.push_back(resolve_group(context.plan, piece, context.collectives.rank(), context.arenas));
    }
  }
  void run(const StepPosition&) override {
    for (const GroupState& group : groups_) {
      if (saves_) {
        hooks_.save(group);
      } else {
        hooks_.load(group);
      }
    }
  }

 private:
  TaskHooks& hooks_;
  bool saves_;
  std::vector<GroupState> groups_;
};

}  // namespace

kernels::StepScalars* scalars_at(const TaskContext& context, planner::BufferId buffer) {
  if (buffer == planner::kNoBuffer) return nullptr;
  ZP_CHECK(context.arenas.size(buffer) >= Bytes(sizeof(kernels::StepScalars)));
  return reinterpret_cast<kernels::StepScalars*>(context.arenas.address(buffer));
}

std::unique_ptr<TaskBody> make_gather_body(const TaskContext& context, void* all, std::uint64_t bytes_of_rank) {
  return std::make_unique<GatherBytesBody>(context, all, bytes_of_rank);
}

std::unique_ptr<TaskBody> make_task_body(const TaskContext& context, const planner::Step& step, const Task& task) {
  switch (task.kind) {
    case TaskKind::kForward:
    case TaskKind::kLoss:
    case TaskKind::kBackward:
      return std::make_unique<ComputeBody>(context, task);
    case TaskKind::kGather:
    case TaskKind::kReduce:
      return std::make_unique<CollectiveBody>(context, task);
    case TaskKind::kNorm:
      return std::make_unique<NormBody>(context, std::get<planner::StateWork>(task.work));
    case TaskKind::kGatherNorm:
      return make_gather_body(context, partials_at(context, std::get<planner::StateWork>(task.work).norm_partials),
                              sizeof(NormPartial));
    case TaskKind::kFinishNorm:
      return std::make_unique<FinishNormBody>(context, std::get<planner::StateWork>(task.work));
    case TaskKind::kMoments:
    case TaskKind::kTensorNorms:
    case TaskKind::kGatherTensorNorms:
    case TaskKind::kTrustRatios:
    case TaskKind::kUpdate:
      return make_update_body(context, task);
    case TaskKind::kInput:
      return std::make_unique<InputBody>(context, std::get<planner::BufferWork>(task.work), step.is_training());
    case TaskKind::kFill:
      return std::make_unique<FillBody>(context, std::get<planner::BufferWork>(task.work).target);
    case TaskKind::kLoad:
    case TaskKind::kSave:
      return std::make_unique<GroupBody>(context, task);
    case TaskKind::kRelease:
      return std::make_unique<NothingBody>();
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("task {} is of a kind that this runtime lacks", task.key));
}

}  // namespace zeroplan::runtime
