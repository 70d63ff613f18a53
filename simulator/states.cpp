#include "simulator/states.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "models/core/text.h"

namespace zeroplan::simulator {
namespace {

using models::Model;
using models::Parameter;
using planner::Framework;
using planner::Method;
using planner::Precision;

/// Bytes per element of each state, by framework and precision (memory and cost of ZeRO, arXiv 1910.02054, table of
/// regimes).
struct ElementBytes {
  std::uint64_t weight = 0;
  std::uint64_t gradient = 0;
  std::uint64_t master = 0;
  DType moment = DType::kFp32;
};

ElementBytes element_bytes(const planner::TrainingSpec& spec) {
  switch (spec.precision) {
    case Precision::kFp32:
    case Precision::kAmp:
      return {4, 4, 0, DType::kFp32};
    case Precision::kBf16:
      return {2, size_of(planner::gradient_dtype(spec)), 0, DType::kBf16};
    case Precision::kBf16Mixed:
    case Precision::kFp16Mixed:
      if (spec.framework == Framework::kFsdp2)
        return {4, 4, 0, DType::kFp32};  // fp32 shards are weight and master at once
      return {2, size_of(planner::gradient_dtype(spec)), 4, DType::kFp32};
  }
  return {};
}

/// What `fraction` of the ranks' bytes stays and goes.
struct Placement {
  Bytes stays;
  Bytes goes;
};

Placement placed(Bytes bytes, const planner::Offload& offload) {
  if (!offload.any()) return {bytes, Bytes(0)};
  const Bytes goes(
      std::min(bytes.count(), static_cast<std::uint64_t>(static_cast<double>(bytes.count()) * offload.fraction)));
  return {bytes - goes, goes};
}

Tier tier_of(planner::OffloadPlace place) {
  return place == planner::OffloadPlace::kNvme ? Tier::kDisk : Tier::kHost;
}

/// Elements of one rank: each tensor is divided by itself and rounded up; fsdp2 divides rows, so small first extents
/// waste most.
std::uint64_t share(const Shape& shape, std::uint64_t ranks, bool by_rows) {
  const std::uint64_t elements = shape.elements().count();
  if (ranks == 1) return elements;
  if (!by_rows || shape.rank() == 0 || shape[0] == 0) return divide_up(elements, ranks);
  return divide_up(shape[0], ranks) * (elements / shape[0]);
}

struct Sums {
  Bytes weights, frozen, gradients, master, moments;
  Bytes own_gradients;  ///< of the rank's part, beside whole ones
};

}  // namespace

Elements TrainedParameters::adapter_elements() const {
  Elements sum;
  for (const Adapter& a : adapters) sum += Elements(rank) * detail::checked_mul(a.inputs + a.outputs, a.copies);
  return sum;
}

Elements TrainedParameters::trainable(const Model& model) const {
  Elements sum = adapter_elements();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (trained[i]) sum += model.parameters[i].shape.elements();
  }
  return sum;
}

bool is_block_linear(const Model& model, const Parameter& parameter) {
  if (parameter.shape.rank() < 2) return false;
  if (parameter.unit >= model.units.size() || model.units[parameter.unit].kind != models::UnitKind::kBlock)
    return false;
  const std::string_view name = parameter.name;
  const bool expert_tensor = parameter.is_expert && parameter.shape.rank() == 3;
  const bool table = name.find("relative_attention_bias") != name.npos || name.find("embed") != name.npos;
  return !table && (expert_tensor || (parameter.shape.rank() == 2 && name.ends_with(".weight")));
}

bool matches_any(std::string_view dotted_name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::size_t parts = static_cast<std::size_t>(std::count(pattern.begin(), pattern.end(), '.')) + 1;
    const std::vector<std::string> names = zeroplan::split(dotted_name, '.');
    for (std::size_t first = 0; first + parts <= names.size(); ++first) {
      const std::string window =
          fmt::format("{}", fmt::join(names.begin() + static_cast<std::ptrdiff_t>(first),
                                      names.begin() + static_cast<std::ptrdiff_t>(first + parts), "."));
      if (fnmatch(pattern.c_str(), window.c_str(), 0) == 0) return true;
    }
  }
  return false;
}

TrainedParameters trained_parameters(const Model& model, const planner::TrainingSpec& spec) {
  TrainedParameters result;
  const std::size_t count = model.parameters.size();
  result.trained.resize(count);
  result.quantised.assign(count, false);
  const bool adapter_only = spec.method != Method::kFull;
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& p = model.parameters[i];
    result.trained[i] = !adapter_only && p.trainable && (spec.freeze.empty() || !matches_any(p.name, spec.freeze));
  }
  if (!adapter_only) return result;
  result.rank = spec.lora_rank;
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& p = model.parameters[i];
    if (!is_block_linear(model, p)) continue;
    result.quantised[i] = spec.method == Method::kQlora;
    if (!spec.lora_targets.empty() && !matches_any(p.name, spec.lora_targets)) continue;
    if (!spec.freeze.empty() && matches_any(p.name, spec.freeze)) continue;
    const std::size_t last = p.shape.rank();
    result.adapters.push_back({i, p.shape[last - 1], p.shape[last - 2], last == 3 ? p.shape[0] : 1});
  }
  if (result.adapters.empty()) {
    throw Error(ErrorCode::kUsage, fmt::format("--lora-targets {}: no linear layer of {} bears such a name",
                                               fmt::join(spec.lora_targets, ","), model.name))
        .at({.key = "--lora-targets"})
        .hint("zeroplan estimate MODEL --tensors --json lists the names");
  }
  return result;
}

Bytes quantised_bytes(Elements elements, const Shape& shape, planner::Quantisation quant) {
  // bitsandbytes: 4-bit codes with one fp32 scale per 64; or the scale itself as 8 bits with one fp32 per 256 scales.
  constexpr std::uint64_t kBlock = 64;
  constexpr std::uint64_t kNestedBlock = 256;
  const std::uint64_t n = elements.count();
  const std::uint64_t blocks = divide_up(n, kBlock);
  switch (quant) {
    case planner::Quantisation::kNf4:
      return Bytes(divide_up(n, 2) + 4 * blocks);
    case planner::Quantisation::kNf4Double:
      return Bytes(divide_up(n, 2) + blocks + 4 * divide_up(blocks, kNestedBlock));
    case planner::Quantisation::kInt8:
      return Bytes(n + 4 * (shape.rank() > 1 ? n / std::max<std::uint64_t>(1, shape[shape.rank() - 1]) : 1));
  }
  return Bytes(n);
}

Bytes moment_bytes(const Shape& shape, planner::OptimizerKind optimizer, DType dtype) {
  const Elements elements = shape.elements();
  if (optimizer == planner::OptimizerKind::kAdafactor) {  // a row and a column of means instead of a matrix of them
    if (shape.rank() < 2) return elements * DType::kFp32;
    const std::uint64_t last = shape[shape.rank() - 1];
    const std::uint64_t before = shape[shape.rank() - 2];
    if (last == 0 || before == 0) return Bytes(0);
    return Elements(elements.count() / last + elements.count() / before) * DType::kFp32;
  }
  if (optimizer ==
      planner::OptimizerKind::kAdamW8bit) {  // tensors below 4096 elements stay fp32; one fp32 scale per 256
    constexpr std::uint64_t kSmallest = 4096;
    constexpr std::uint64_t kBlock = 256;
    if (elements.count() < kSmallest) return elements * DType::kFp32 * 2;
    return Bytes(2 * (elements.count() + 4 * divide_up(elements.count(), kBlock)));
  }
  return elements * dtype * planner::moment_count(optimizer);
}

Bytes StateParts::on(Tier tier) const {
  Bytes sum;
  for (const StatePart& p : parts) sum += p.tier == tier ? p.bytes : Bytes(0);
  return sum;
}

Bytes StateParts::of(std::string_view name, Tier tier) const {
  Bytes sum;
  for (const StatePart& p : parts) sum += p.tier == tier && p.name == name ? p.bytes : Bytes(0);
  return sum;
}

StateParts model_states(const Model& model, const TrainedParameters& trained, const planner::TrainingSpec& spec,
                        const planner::Strategy& strategy) {
  const ElementBytes e = element_bytes(spec);
  const std::uint64_t n = spec.gpus;
  const bool by_rows = spec.framework == Framework::kFsdp2;
  const std::uint64_t weight_ranks = strategy.stage >= 3 ? n : 1;
  const std::uint64_t gradient_ranks = strategy.stage >= 2 ? n : 1;
  const std::uint64_t update_ranks = strategy.stage >= 1 ? n : 1;
  // DeepSpeed's host update takes fp32 gradients; fsdp2's shards are fp32 already. Stage 1 keeps whole gradients on the
  // device until the update, and the host has fp32 ones of the rank's own part only.
  const bool deepspeed_offload = spec.framework == Framework::kDeepspeed && strategy.offload_optimizer.any();
  const std::uint64_t gradient_bytes = deepspeed_offload && e.master > 0 ? 4 : e.gradient;
  const bool own_part_on_host = deepspeed_offload && strategy.stage == 1;
  Sums sums;
  const auto add_trained = [&](const Shape& shape) {
    sums.weights += Bytes(detail::checked_mul(share(shape, weight_ranks, by_rows), e.weight));
    if (own_part_on_host) {
      sums.gradients += Bytes(detail::checked_mul(share(shape, gradient_ranks, by_rows), e.gradient));
      sums.own_gradients += Bytes(detail::checked_mul(share(shape, update_ranks, by_rows), gradient_bytes));
    } else {
      sums.gradients += Bytes(detail::checked_mul(share(shape, gradient_ranks, by_rows), gradient_bytes));
    }
    sums.master += Bytes(detail::checked_mul(share(shape, update_ranks, by_rows), e.master));
    sums.moments += Bytes(divide_up(moment_bytes(shape, spec.optimizer, e.moment).count(), update_ranks));
  };
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const Parameter& p = model.parameters[i];
    if (trained.trained[i]) {
      add_trained(p.shape);
    } else if (trained.quantised[i]) {
      sums.frozen += Bytes(divide_up(quantised_bytes(p.shape.elements(), p.shape, spec.quant).count(), weight_ranks));
    } else {  // adapters' base weights are kept in 16 bits where the run computes in them
      sums.frozen += Bytes(detail::checked_mul(share(p.shape, weight_ranks, by_rows), e.weight));
    }
  }
  for (const Adapter& a : trained.adapters) {
    add_trained({a.copies, trained.rank, a.inputs});
    add_trained({a.copies, a.outputs, trained.rank});
  }

  StateParts result;
  const std::uint64_t ranks_per_node = spec.ranks_per_node();
  const auto add = [&](std::string_view name, Bytes bytes, planner::Offload offload) {
    const Placement parts = placed(bytes, offload);
    if (parts.stays > Bytes(0)) result.parts.push_back({name, Tier::kDevice, parts.stays});
    if (parts.goes > Bytes(0)) result.parts.push_back({name, tier_of(offload.place), parts.goes * ranks_per_node});
  };
  // fsdp2 offloads all or nothing; ZeRO can offload weights only where it shards them.
  planner::Offload param = strategy.offload_param;
  planner::Offload optimizer = strategy.offload_optimizer;
  planner::Offload gradients = strategy.offload_gradients.any() ? strategy.offload_gradients : optimizer;
  if (spec.framework == Framework::kFsdp2) optimizer = gradients = param;
  if (spec.framework == Framework::kDeepspeed && strategy.stage < 3) param = {};
  if (spec.framework == Framework::kDeepspeed && strategy.stage < 1) optimizer = gradients = {};
  if (spec.framework == Framework::kPytorch || spec.framework == Framework::kDdp) param = optimizer = gradients = {};
  add("weights", sums.weights, param);
  add("frozen_weights", sums.frozen, param);
  add("gradients", sums.gradients, own_part_on_host ? planner::Offload{} : gradients);
  add("gradients", sums.own_gradients, gradients);
  add("master_weights", sums.master, optimizer);
  add("optimizer_states", sums.moments, optimizer);
  return result;
}

}  // namespace zeroplan::simulator
