#include <algorithm>

#include <fmt/format.h>

#include "runtime/device/device_tasks.h"
#include "runtime/update_calls.h"

namespace zeroplan::runtime {
namespace {

using kernels::DeviceCall;
using kernels::DeviceStream;
using planner::OptimizerKind;
using planner::StateWork;
using planner::Task;
using planner::TaskKind;

static_assert(Bytes(sizeof(kernels::LambSums)) == planner::kTensorNormBytes);

/// Collects the calls of an update task over all ranks and pieces.
class UpdateWriter {
 public:
  UpdateWriter(const DeviceContext& context, const StateWork& work)
      : context_(context), work_(work), calls_(std::make_unique<DeviceCalls>()) {}

  std::unique_ptr<DeviceTask> take() { return std::move(calls_); }

  void write_elementwise() {
    const bool is_narrow = context_.plan.training.precision == planner::Precision::kBf16;
    for_each_piece(false, [&](const DeviceRank& rank, const planner::UpdatePiece&, const StatePiece& piece) {
      if (is_narrow) {
        write_narrow(rank, piece);
      } else {
        add(rule_call(piece, scalars(rank)));
      }
    });
  }

  void write_moments() {
    for_each_piece(false, [&](const DeviceRank& rank, const planner::UpdatePiece&, const StatePiece& p) {
      ZP_CHECK(p.moments.size() == 2);
      add(kernels::LambMoments{.gradient_dtype = p.gradient_dtype,
                               .count = p.count,
                               .gradient = p.gradients,
                               .first_moment = reinterpret_cast<float*>(p.moments[0]),
                               .second_moment = reinterpret_cast<float*>(p.moments[1]),
                               .scalars = scalars(rank)});
    });
  }

  /// Each rank's sums, over its shards only at every stage; tensors of which it has no part keep zeros.
  void write_tensor_norms() {
    const std::size_t bytes = parameters() * sizeof(kernels::LambSums);
    for (const DeviceRank& rank : context_.ranks) calls_->clears.push_back({own_norms(rank), bytes});
    for_each_piece(true, [&](const DeviceRank& rank, const planner::UpdatePiece& planned, const StatePiece& p) {
      ZP_CHECK(p.moments.size() == 2);
      const float* values = p.master != nullptr ? p.master : reinterpret_cast<const float*>(p.parameters);
      auto* results = reinterpret_cast<kernels::LambSums*>(own_norms(rank));
      for (const TensorPart& part : tensor_parts(context_.plan, planned.piece.group, p)) {
        const kernels::LambNorms norms{.count = part.count,
                                       .parameter = values + part.skipped,
                                       .first_moment = reinterpret_cast<const float*>(p.moments[0]) + part.skipped,
                                       .second_moment = reinterpret_cast<const float*>(p.moments[1]) + part.skipped,
                                       .scalars = scalars(rank)};
        add(kernels::LambNormsInto{norms, results + part.parameter, false}, &rank);
      }
    });
  }

  void write_trust_ratios() {
    for (const DeviceRank& rank : context_.ranks) {
      add(kernels::LambRatios{.scalars = scalars(rank),
                              .parts = reinterpret_cast<const kernels::LambSums*>(norms_of(rank)),
                              .ranks = context_.ranks.size(),
                              .count = parameters(),
                              .ratios = ratios_of(rank)});
    }
  }

  void write_lamb() {
    for_each_piece(false, [&](const DeviceRank& rank, const planner::UpdatePiece& planned, const StatePiece& p) {
      for (const TensorPart& part : tensor_parts(context_.plan, planned.piece.group, p)) {
        add(lamb_update_call(p, part, ratios_of(rank), scalars(rank)));
      }
    });
  }

  std::byte* norms_of(const DeviceRank& rank) const {
    ZP_CHECK(rank.arenas->size(work_.tensor_norms) >= planner::kTensorNormBytes * parameters() * context_.ranks.size());
    return rank.arenas->address(work_.tensor_norms);
  }

 private:
  template <class Use>
  void for_each_piece(bool shard_only, Use use) const {
    for (const DeviceRank& rank : context_.ranks) {
      for (const planner::UpdatePiece& piece : work_.pieces) {
        use(rank, piece, resolve_piece(context_.plan, piece, rank.rank, *rank.arenas, shard_only));
      }
    }
  }

  /// \param scratch  the rank whose workspace the call may use, or none
  void add(const kernels::DeviceOp& op, const DeviceRank* scratch = nullptr) {
    DeviceCall call;
    call.op = op;
    if (scratch != nullptr) {
      call.workspace = scratch->arenas->address(work_.workspace);
      call.workspace_bytes = scratch->arenas->size(work_.workspace).count();
    }
    prepare_call(context_, "an update", call);
    calls_->calls.push_back(call);
  }

  const kernels::StepScalars* scalars(const DeviceRank& rank) const {
    ZP_CHECK(rank.arenas->size(work_.scalars) >= Bytes(sizeof(kernels::StepScalars)));
    return reinterpret_cast<const kernels::StepScalars*>(rank.arenas->address(work_.scalars));
  }
  std::size_t parameters() const { return context_.plan.model.parameters.size(); }
  std::byte* own_norms(const DeviceRank& rank) const {
    return norms_of(rank) + rank.rank * parameters() * sizeof(kernels::LambSums);
  }
  double* ratios_of(const DeviceRank& rank) const {
    ZP_CHECK(rank.arenas->size(work_.trust_ratios) >= planner::kTrustRatioBytes * parameters());
    return reinterpret_cast<double*>(rank.arenas->address(work_.trust_ratios));
  }

  kernels::DeviceOp rule_call(const StatePiece& piece, const kernels::StepScalars* step) const {
    const OptimizerKind kind = context_.plan.training.optimizer;
    const std::size_t moments = planner::moment_count(kind);
    const auto other = [&](kernels::UpdateRule rule) {
      return kernels::RuleUpdate{rule, elementwise_call<kernels::OptimizerStep>(piece, step, moments)};
    };
    switch (kind) {
      case OptimizerKind::kAdamW:
        return elementwise_call<kernels::AdamW>(piece, step, moments);
      case OptimizerKind::kAdam:
        return other(kernels::UpdateRule::kAdam);
      case OptimizerKind::kSgd:
        return other(kernels::UpdateRule::kSgd);
      case OptimizerKind::kLion:
        return other(kernels::UpdateRule::kLion);
      case OptimizerKind::kAdagrad:
        return other(kernels::UpdateRule::kAdagrad);
      default:
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("optimizer {}: this runtime lacks it", planner::name_of(kind)));
    }
  }

  /// States that all have 16 bits: a block of them is widened, updated in fp32 and rounded once to nearest even.
  void write_narrow(const DeviceRank& rank, const StatePiece& piece) {
    const std::size_t block = planner::kNarrowUpdateBlock.count();
    const std::size_t states = 1 + piece.moments.size();
    ZP_CHECK(rank.arenas->size(work_.workspace) >= planner::kNarrowUpdateBlock * states * DType::kFp32);
    auto* const scratch = reinterpret_cast<float*>(rank.arenas->address(work_.workspace));
    const std::size_t width = size_of(piece.parameter_dtype);
    for (std::size_t first = 0; first < piece.count; first += block) {
      const std::size_t count = std::min(block, piece.count - first);
      const auto stored = [&](std::size_t s) {
        return (s == 0 ? piece.parameters : piece.moments[s - 1]) + first * width;
      };
      for (std::size_t s = 0; s < states; ++s) {
        add(kernels::Copy{piece.parameter_dtype, DType::kFp32, count, stored(s), scratch + s * block});
      }
      StatePiece wide;
      wide.count = count;
      wide.gradient_dtype = piece.gradient_dtype;
      wide.parameters = reinterpret_cast<std::byte*>(scratch);
      wide.gradients = piece.gradients + first * size_of(piece.gradient_dtype);
      for (std::size_t s = 1; s < states; ++s)
        wide.moments.push_back(reinterpret_cast<std::byte*>(scratch + s * block));
      add(rule_call(wide, scalars(rank)));
      for (std::size_t s = 0; s < states; ++s) {
        add(kernels::Copy{DType::kFp32, piece.parameter_dtype, count, scratch + s * block, stored(s)});
      }
    }
  }

  const DeviceContext& context_;
  const StateWork& work_;
  std::unique_ptr<DeviceCalls> calls_;
};

}  // namespace

std::unique_ptr<DeviceTask> make_device_update(const DeviceContext& context, const Task& task) {
  UpdateWriter writer(context, std::get<StateWork>(task.work));
  switch (task.kind) {
    case TaskKind::kMoments:
      writer.write_moments();
      break;
    case TaskKind::kTensorNorms:
      writer.write_tensor_norms();
      break;
    case TaskKind::kGatherTensorNorms: {
      std::vector<std::byte*> tables;
      for (const DeviceRank& rank : context.ranks) tables.push_back(writer.norms_of(rank));
      return make_table_gather(tables, context.plan.model.parameters.size() * sizeof(kernels::LambSums));
    }
    case TaskKind::kTrustRatios:
      writer.write_trust_ratios();
      break;
    default:
      if (context.plan.training.optimizer == OptimizerKind::kLamb) {
        writer.write_lamb();
      } else {
        writer.write_elementwise();
      }
  }
  return writer.take();
}

}  // namespace zeroplan::runtime
