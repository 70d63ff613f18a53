// Model states of a training run: what weights, gradients and optimizer states take on each tier, without activations.
// Main types: TrainedParameters (who is trained), StateParts, DeepspeedRow. Depends on models and planner.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "planner/plan.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::simulator {

using planner::Tier;

/// Two numbers of a low-rank adapter beside a linear layer: it adds rank x (inputs + outputs) trainable elements.
struct Adapter {
  std::size_t parameter = 0;  ///< of the linear weight, index into Model::parameters
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  std::uint64_t copies = 1;  ///< matrices in one tensor: experts that are kept in three dimensions
};

/// Which parameters get gradients, which are frozen and which are frozen and quantised, by method and freeze list.
struct TrainedParameters {
  std::vector<bool> trained;    ///< by index into Model::parameters
  std::vector<bool> quantised;  ///< likewise; a subset of those not trained
  std::vector<Adapter> adapters;
  std::uint64_t rank = 0;

  Elements adapter_elements() const;
  /// Trained elements, adapters included.
  Elements trainable(const models::Model& model) const;
};

/// True for the weight of a linear layer within a block: what adapters and quantisation apply to.
bool is_block_linear(const models::Model& model, const models::Parameter& parameter);
/// True if a dotted name has a part (or several) that one of the names or globs matches.
bool matches_any(std::string_view dotted_name, const std::vector<std::string>& patterns);

/// \throws Error{kUsage} if no linear layer bears one of the names of `lora_targets`.
TrainedParameters trained_parameters(const models::Model& model, const planner::TrainingSpec& spec);

/// Bytes that a frozen linear weight takes when it is quantised, block scales included.
Bytes quantised_bytes(Elements elements, const Shape& shape, planner::Quantisation quant);
/// Bytes of the moments of one parameter, of all ranks together.
Bytes moment_bytes(const Shape& shape, planner::OptimizerKind optimizer, DType dtype);

/// Bytes of one kind of state on one tier: of a rank on the device, of a node on host and disk.
struct StatePart {
  std::string_view name;  ///< weights, frozen_weights, gradients, master_weights, optimizer_states
  Tier tier = Tier::kDevice;
  Bytes bytes;
};

struct StateParts {
  std::vector<StatePart> parts;  ///< those that are not empty
  Bytes on(Tier tier) const;
  Bytes of(std::string_view name, Tier tier) const;
};

/// The states of the rank that holds most. Partition: stage 1 optimizer, 2 gradients too, 3 weights too; each tensor's
/// share rounded up.
StateParts model_states(const models::Model& model, const TrainedParameters& trained, const planner::TrainingSpec& spec,
                        const planner::Strategy& strategy);

/// One row of what DeepSpeed's own estimators print.
struct DeepspeedRow {
  std::uint64_t stage = 2;
  bool offload_optimizer = false;
  std::optional<bool> offload_param;  ///< stage 3
  std::optional<bool> zero_init;      ///< stage 3
  std::uint64_t gpu_bytes = 0;
  std::uint64_t cpu_bytes = 0;
};

/// All rows in the order in which the estimators print them, stage 2 first. `largest` is the largest sum of parameters
/// that one module owns itself. Formulas: DeepSpeed 0.19.6, estimate_zero2/zero3_model_states_mem_needs,
/// additional_buffer_factor 1.5.
std::vector<DeepspeedRow> deepspeed_table(Elements total, Elements largest, std::uint64_t gpus_per_node,
                                          std::uint64_t nodes);

/// The text of DeepSpeed's estimator of one stage (2 or 3), value for value.
std::string deepspeed_table_text(std::uint64_t stage, Elements total, Elements largest, std::uint64_t gpus_per_node,
                                 std::uint64_t nodes);

}  // namespace zeroplan::simulator
