#include "simulator/framework_step.h"

#include <algorithm>

#include "models/parameter_summary.h"
#include "planner/cost_model.h"

namespace zeroplan::simulator {
namespace {

using planner::CollectiveKind;
using planner::Framework;
using planner::OffloadPlace;

/// Bytes of one update on the host or disk, per parameter: fp32 weight and two moments.
constexpr double kStateBytes = 12;
/// Bytes of a GPU's update in mixed precision: planner/cost_model.h.
constexpr double kUpdateBytes = 28;

double seconds(double bytes, BytesPerSecond rate) {
  return rate.known() ? bytes / rate.per_second() : 0;
}

/// Parameters that a token is multiplied with: an embedding that is no head as well is only looked up.
double multiplied_parameters(const models::Model& model) {
  double active = static_cast<double>(models::summarise(model).active.count());
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const models::Parameter& p = model.parameters[i];
    const bool is_tied =
        std::any_of(model.tied.begin(), model.tied.end(), [&](const auto& t) { return t.parameter == i; });
    if (model.units[p.unit].kind == models::UnitKind::kEmbedding && !is_tied) {
      active -= static_cast<double>(p.shape.elements().count());
    }
  }
  return std::max(active, 0.0);
}

class StepModel {
 public:
  StepModel(const models::Model& model, const TrainedParameters& trained, const planner::Machine& machine,
            const planner::TrainingSpec& training, const planner::Strategy& strategy)
      : model_(model), machine_(machine), training_(training), s_(strategy), costs_(machine, on_gpu(training)) {
    all_ = static_cast<double>(models::summarise(model).total.count());
    trained_ = static_cast<double>(trained.trainable(model).count());
    element_ = static_cast<double>(size_of(planner::compute_dtype(training.precision)));
    sharded_ = static_cast<double>(s_.stage >= 1 || training.framework == Framework::kFsdp2 ? training.gpus : 1);
  }

  std::optional<StepEstimate> estimate() const {
    const bool is_16bit = training_.precision != planner::Precision::kFp32;
    const auto rate =
        is_16bit && machine_.rates.bf16_flops.known() ? machine_.rates.bf16_flops : machine_.rates.fp32_flops;
    if (!rate.known()) return std::nullopt;
    const double passes = static_cast<double>(s_.accumulation);
    const double arithmetic = flops_of_pass() / rate.per_second();
    const double collectives = collectives_of_pass();
    const double transfers = weights_over_pcie();
    StepEstimate e;
    const double once = reduce_once() + gather_once();
    e.arithmetic_s = passes * arithmetic;
    e.collectives_s = passes * collectives + once;
    e.update_s = update();
    e.transfers_s = passes * transfers + state_transfers();
    const double last_hides =
        std::max(arithmetic * 2 / 3, reduce_once()) - arithmetic * 2 / 3;  // behind the backward pass
    const double exposed =
        passes * std::max(0.0, std::max(collectives, transfers) - arithmetic) + last_hides + gather_once();
    e.exposed_comm_s = exposed;
    e.step_s = e.arithmetic_s + exposed + e.update_s + state_transfers();
    const double tokens = static_cast<double>(s_.micro_batch * s_.accumulation * training_.seq * training_.gpus);
    e.tokens_per_s = e.step_s > 0 ? tokens / e.step_s : 0;
    return e;
  }

 private:
  static planner::TrainingSpec on_gpu(planner::TrainingSpec training) {
    training.backend = planner::BackendKind::kCuda;
    return training;
  }

  double flops_of_pass() const {
    const double tokens = static_cast<double>(s_.micro_batch * training_.seq);
    const double forward = 2 * multiplied_parameters(model_) * tokens;
    const bool only_adapters = training_.method != planner::Method::kFull;
    double flops = forward * (only_adapters ? 2 : 3);
    double attention = 0;
    if (model_.decoder) {
      attention =
          6 * tokens * static_cast<double>(training_.seq * model_.decoder->query_width() * model_.decoder->layers);
    }
    flops += attention;
    if (s_.recompute == planner::Recompute::kFull) flops += forward + attention / 3;
    return flops;
  }

  double collective(CollectiveKind kind, double bytes) const {
    if (training_.gpus == 1) return 0;
    return costs_.collective(kind, Bytes(static_cast<std::uint64_t>(bytes))).value();
  }

  bool gathers() const { return s_.stage == 3 && training_.gpus > 1; }

  /// Stage 3: weights for the forward and the backward pass, gradients reduced; stage 2: gradients, as all-reduce.
  double collectives_of_pass() const {
    double time = 0;
    const bool kept_for_backward = training_.framework == Framework::kFsdp2 && !training_.reshard;
    if (gathers()) {
      time += collective(CollectiveKind::kAllGather, all_ * element_) * (kept_for_backward ? 1 : 2);
      time += collective(CollectiveKind::kReduceScatter, trained_ * element_);
    } else if (s_.stage == 2) {
      time += collective(CollectiveKind::kAllReduce, trained_ * element_);
    }
    return time;
  }

  double reduce_once() const { return s_.stage <= 1 ? collective(CollectiveKind::kAllReduce, trained_ * element_) : 0; }

  double gather_once() const {
    return s_.stage == 1 || s_.stage == 2 ? collective(CollectiveKind::kAllGather, trained_ * element_) : 0;
  }

  /// Shards that come from the host or disk for each gather.
  double weights_over_pcie() const {
    if (!s_.offload_param.any()) return 0;
    const double bytes = all_ * element_ / sharded_ * s_.offload_param.fraction;
    double time = 2 * seconds(bytes, machine_.rates.h2d_bytes);
    if (s_.offload_param.place == OffloadPlace::kNvme)
      time += 2 * seconds(on_node(bytes), machine_.rates.disk_read_bytes);
    return time;
  }

  double on_node(double bytes_of_rank) const { return bytes_of_rank * static_cast<double>(training_.ranks_per_node()); }

  planner::Offload optimizer_place() const {
    return training_.framework == Framework::kFsdp2 ? s_.offload_param : s_.offload_optimizer;
  }

  /// Gradients down, weights up, and states from and to the disk.
  double state_transfers() const {
    const planner::Offload place = optimizer_place();
    if (!place.any()) return 0;
    const double share = trained_ / sharded_ * place.fraction;
    double time =
        seconds(share * element_, machine_.rates.d2h_bytes) + seconds(share * element_, machine_.rates.h2d_bytes);
    if (place.place == OffloadPlace::kNvme) {
      time += seconds(on_node(share * kStateBytes), machine_.rates.disk_read_bytes);
      time += seconds(on_node(share * kStateBytes), machine_.rates.disk_write_bytes);
    }
    return time;
  }

  double update() const {
    const planner::Offload place = optimizer_place();
    const double share = trained_ / sharded_;
    const double on_host = place.any() ? share * place.fraction : 0;
    double time = seconds((share - on_host) * kUpdateBytes, machine_.rates.device_bytes);
    if (machine_.rates.host_adam_params.known())
      time += on_node(on_host) / machine_.rates.host_adam_params.per_second();
    return time;
  }

  const models::Model& model_;
  const planner::Machine& machine_;
  const planner::TrainingSpec& training_;
  const planner::Strategy& s_;
  planner::CostModel costs_;
  double all_ = 0;
  double trained_ = 0;
  double element_ = 2;
  double sharded_ = 1;
};

}  // namespace

std::optional<StepEstimate> estimate_step(const models::Model& model, const TrainedParameters& trained,
                                          const planner::Machine& machine, const planner::TrainingSpec& training,
                                          const planner::Strategy& strategy) {
  return StepModel(model, trained, machine, training, strategy).estimate();
}

}  // namespace zeroplan::simulator
