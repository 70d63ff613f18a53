#include "runtime/update_bodies.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/adamw.h"
#include "kernels/lamb.h"
#include "kernels/optimizers.h"
#include "runtime/narrow_update.h"
#include "runtime/update_calls.h"

namespace zeroplan::runtime {
namespace {

using planner::OptimizerKind;
using planner::StateWork;
using planner::Task;
using planner::TaskKind;

static_assert(Bytes(sizeof(kernels::LambSums)) == planner::kTensorNormBytes);
static_assert(Bytes(sizeof(double)) == planner::kTrustRatioBytes);

/// One kernel over the pieces of a task.
template <class Arguments>
class KernelBody final : public TaskBody {
 public:
  using Kernel = void (*)(const Arguments&, kernels::Workers&);
  KernelBody(Kernel kernel, kernels::Workers& workers, std::vector<Arguments> calls)
      : kernel_(kernel), workers_(workers), calls_(std::move(calls)) {}
  void run(const StepPosition&) override {
    for (const Arguments& call : calls_) kernel_(call, workers_);
  }

 private:
  Kernel kernel_;
  kernels::Workers& workers_;
  std::vector<Arguments> calls_;
};

/// The same over pieces without fp32 states.
template <class Arguments>
class NarrowBody final : public TaskBody {
 public:
  using Kernel = void (*)(const Arguments&, kernels::Workers&);
  NarrowBody(Kernel kernel, const TaskContext& context, const StateWork& work)
      : kernel_(kernel), workers_(context.workers) {
    for (const planner::UpdatePiece& piece : work.pieces) {
      const StatePiece p = resolve_piece(context.plan, piece, context.collectives.rank(), context.arenas, false);
      ZP_CHECK(is_narrow(p) && p.moments.size() == planner::moment_count(context.plan.training.optimizer));
      Arguments call;
      call.gradient_dtype = p.gradient_dtype;
      call.gradient = p.gradients;
      call.scalars = scalars_at(context, work.scalars);
      calls_.emplace_back(call, p);
    }
  }
  void run(const StepPosition&) override {
    for (const auto& [call, piece] : calls_) update_narrow(call, piece, kernel_, serial_, workers_);
  }

 private:
  Kernel kernel_;
  kernels::Workers& workers_;
  kernels::Workers serial_{1};
  std::vector<std::pair<Arguments, StatePiece>> calls_;
};

template <class Arguments>
std::unique_ptr<TaskBody> elementwise_body(const TaskContext& context, const StateWork& work,
                                           typename KernelBody<Arguments>::Kernel kernel) {
  if (context.plan.training.precision == planner::Precision::kBf16) {
    return std::make_unique<NarrowBody<Arguments>>(kernel, context, work);
  }
  std::vector<Arguments> calls;
  for (const planner::UpdatePiece& piece : work.pieces) {
    calls.push_back(elementwise_call<Arguments>(
        resolve_piece(context.plan, piece, context.collectives.rank(), context.arenas, false),
        scalars_at(context, work.scalars), planner::moment_count(context.plan.training.optimizer)));
  }
  return std::make_unique<KernelBody<Arguments>>(kernel, context.workers, std::move(calls));
}

/// The ranks' sums, [rank][parameter].
kernels::LambSums* tensor_norms_at(const TaskContext& context, planner::BufferId buffer) {
  const std::uint64_t entries = context.plan.model.parameters.size() * context.collectives.size();
  ZP_CHECK(context.arenas.size(buffer) >= planner::kTensorNormBytes * entries);
  return reinterpret_cast<kernels::LambSums*>(context.arenas.address(buffer));
}

double* trust_ratios_at(const TaskContext& context, planner::BufferId buffer) {
  ZP_CHECK(context.arenas.size(buffer) >= planner::kTrustRatioBytes * context.plan.model.parameters.size());
  return reinterpret_cast<double*>(context.arenas.address(buffer));
}

std::unique_ptr<TaskBody> lamb_moments_body(const TaskContext& context, const StateWork& work) {
  std::vector<kernels::LambMoments> calls;
  for (const planner::UpdatePiece& piece : work.pieces) {
    const StatePiece p = resolve_piece(context.plan, piece, context.collectives.rank(), context.arenas, false);
    ZP_CHECK(p.moments.size() == 2);
    calls.push_back({.gradient_dtype = p.gradient_dtype,
                     .count = p.count,
                     .gradient = p.gradients,
                     .first_moment = reinterpret_cast<float*>(p.moments[0]),
                     .second_moment = reinterpret_cast<float*>(p.moments[1]),
                     .scalars = scalars_at(context, work.scalars)});
  }
  return std::make_unique<KernelBody<kernels::LambMoments>>(kernels::cpu::lamb_moments, context.workers,
                                                            std::move(calls));
}

/// This rank's sums, over its shards only at every stage.
class TensorNormsBody final : public TaskBody {
 public:
  TensorNormsBody(const TaskContext& context, const StateWork& work) : workers_(context.workers) {
    const std::uint64_t rank = context.collectives.rank();
    const std::size_t parameters = context.plan.model.parameters.size();
    sums_ = std::span(tensor_norms_at(context, work.tensor_norms) + rank * parameters, parameters);
    for (const planner::UpdatePiece& piece : work.pieces) {
      const StatePiece p = resolve_piece(context.plan, piece, rank, context.arenas, true);
      ZP_CHECK(p.moments.size() == 2);
      const float* values = p.master != nullptr ? p.master : reinterpret_cast<const float*>(p.parameters);
      for (const TensorPart& part : tensor_parts(context.plan, piece.piece.group, p)) {
        calls_.push_back({part.parameter,
                          {.count = part.count,
                           .parameter = values + part.skipped,
                           .first_moment = reinterpret_cast<const float*>(p.moments[0]) + part.skipped,
                           .second_moment = reinterpret_cast<const float*>(p.moments[1]) + part.skipped,
                           .scalars = scalars_at(context, work.scalars)}});
      }
    }
  }
  void run(const StepPosition&) override {
    std::fill(sums_.begin(), sums_.end(), kernels::LambSums());
    for (const auto& [parameter, call] : calls_) sums_[parameter] = kernels::cpu::lamb_norms(call, workers_);
  }

 private:
  kernels::Workers& workers_;
  std::span<kernels::LambSums> sums_;
  std::vector<std::pair<std::size_t, kernels::LambNorms>> calls_;
};

/// Adds the sums of a tensor in rank order, so that every rank gets the same bits.
class TrustRatiosBody final : public TaskBody {
 public:
  TrustRatiosBody(const TaskContext& context, const StateWork& work)
      : scalars_(scalars_at(context, work.scalars)),
        sums_(tensor_norms_at(context, work.tensor_norms)),
        ratios_(trust_ratios_at(context, work.trust_ratios), context.plan.model.parameters.size()),
        ranks_(context.collectives.size()) {}
  void run(const StepPosition&) override {
    for (std::size_t p = 0; p < ratios_.size(); ++p) {
      kernels::LambSums whole;
      for (std::size_t r = 0; r < ranks_; ++r) {
        whole.parameter += sums_[r * ratios_.size() + p].parameter;
        whole.direction += sums_[r * ratios_.size() + p].direction;
      }
      ratios_[p] = kernels::lamb_ratio(*scalars_, whole);
    }
  }

 private:
  const kernels::StepScalars* scalars_;
  const kernels::LambSums* sums_;
  std::span<double> ratios_;
  std::size_t ranks_;
};

std::unique_ptr<TaskBody> lamb_update_body(const TaskContext& context, const StateWork& work) {
  const double* ratios = trust_ratios_at(context, work.trust_ratios);
  std::vector<kernels::LambUpdate> calls;
  for (const planner::UpdatePiece& piece : work.pieces) {
    const StatePiece p = resolve_piece(context.plan, piece, context.collectives.rank(), context.arenas, false);
    for (const TensorPart& part : tensor_parts(context.plan, piece.piece.group, p)) {
      calls.push_back(lamb_update_call(p, part, ratios, scalars_at(context, work.scalars)));
    }
  }
  return std::make_unique<KernelBody<kernels::LambUpdate>>(kernels::cpu::lamb_update, context.workers,
                                                           std::move(calls));
}

std::unique_ptr<TaskBody> gather_tensor_norms_body(const TaskContext& context, const StateWork& work) {
  kernels::LambSums* all = tensor_norms_at(context, work.tensor_norms);
  const std::uint64_t bytes = (planner::kTensorNormBytes * context.plan.model.parameters.size()).count();
  return make_gather_body(context, all, bytes);
}

std::unique_ptr<TaskBody> optimizer_body(const TaskContext& context, const StateWork& work) {
  const OptimizerKind kind = context.plan.training.optimizer;
  switch (kind) {
    case OptimizerKind::kAdamW:
      return elementwise_body<kernels::AdamW>(context, work, kernels::cpu::adamw);
    case OptimizerKind::kAdam:
      return elementwise_body<kernels::OptimizerStep>(context, work, kernels::cpu::adam);
    case OptimizerKind::kSgd:
      return elementwise_body<kernels::OptimizerStep>(context, work, kernels::cpu::sgd);
    case OptimizerKind::kLion:
      return elementwise_body<kernels::OptimizerStep>(context, work, kernels::cpu::lion);
    case OptimizerKind::kAdagrad:
      return elementwise_body<kernels::OptimizerStep>(context, work, kernels::cpu::adagrad);
    case OptimizerKind::kLamb:
      return lamb_update_body(context, work);
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdamW8bit:
      break;
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("optimizer {}: this runtime lacks it", planner::name_of(kind)));
}

}  // namespace

std::unique_ptr<TaskBody> make_update_body(const TaskContext& context, const Task& task) {
  const auto& work = std::get<StateWork>(task.work);
  switch (task.kind) {
    case TaskKind::kMoments:
      return lamb_moments_body(context, work);
    case TaskKind::kTensorNorms:
      return std::make_unique<TensorNormsBody>(context, work);
    case TaskKind::kGatherTensorNorms:
      return gather_tensor_norms_body(context, work);
    case TaskKind::kTrustRatios:
      return std::make_unique<TrustRatiosBody>(context, work);
    default:
      return optimizer_body(context, work);
  }
}

}  // namespace zeroplan::runtime
