#include "simulator/deepspeed_host.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace zeroplan::simulator {
namespace {

using planner::OffloadPlace;

constexpr std::uint64_t kFp32 = 4;
constexpr std::uint64_t kOptimizerBuffers = 4;           ///< offload_optimizer.buffer_count
constexpr std::uint64_t kParameterBuffers = 5;           ///< offload_param.buffer_count
constexpr std::uint64_t kParameterBuffer = 100'000'000;  ///< offload_param.buffer_size, elements

/// Beyond this a power of two leaves 63 bits: no host has so much.
constexpr std::uint64_t kLargestPinned = std::uint64_t{1} << 62;

Bytes pinned(std::uint64_t elements, std::uint64_t bytes_each) {
  const std::uint64_t bytes = detail::checked_mul(elements, bytes_each);
  if (bytes > kLargestPinned) throw Error(ErrorCode::kOverflow, "a pinned buffer of more than 2^62 bytes");
  return Bytes(bytes == 0 ? 0 : std::bit_ceil(bytes));
}

/// Elements of each trained tensor on one rank, in order.
std::vector<std::uint64_t> shares(const models::Model& model, const TrainedParameters& trained, std::uint64_t ranks) {
  std::vector<std::uint64_t> result;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    if (trained.trained[i]) result.push_back(divide_up(model.parameters[i].shape.elements().count(), ranks));
  }
  for (const Adapter& a : trained.adapters) {
    result.push_back(divide_up(detail::checked_mul(detail::checked_mul(a.copies, trained.rank), a.inputs), ranks));
    result.push_back(divide_up(detail::checked_mul(detail::checked_mul(a.copies, trained.rank), a.outputs), ranks));
  }
  return result;
}

/// A sub-group closes once it has crossed the limit.
std::vector<std::uint64_t> sub_groups(const std::vector<std::uint64_t>& parts, std::uint64_t limit) {
  std::vector<std::uint64_t> groups;
  std::uint64_t open = 0;
  for (const std::uint64_t part : parts) {
    open += part;
    if (open < limit) continue;
    groups.push_back(open);
    open = 0;
  }
  if (open > 0) groups.push_back(open);
  return groups;
}

struct Host {
  Bytes of_rank;

  /// \param part  of a state that is offloaded
  void add_pageable(std::uint64_t elements, std::uint64_t bytes_each, double part) {
    of_rank += Bytes(static_cast<std::uint64_t>(static_cast<double>(detail::checked_mul(elements, bytes_each)) * part));
  }
  void add_pinned(std::uint64_t elements, std::uint64_t bytes_each) { of_rank += pinned(elements, bytes_each); }
};

}  // namespace

Bytes deepspeed_host_bytes(const models::Model& model, const TrainedParameters& trained,
                           const planner::TrainingSpec& training, const planner::Strategy& strategy) {
  const bool optimizer = strategy.stage >= 1 && strategy.offload_optimizer.any();
  const bool parameters = strategy.stage == 3 && strategy.offload_param.any();
  const std::vector<std::uint64_t> parts = shares(model, trained, training.gpus);
  Elements all;
  for (const std::uint64_t part : parts) all += Elements(part);
  const std::uint64_t n = all.count();
  const std::uint64_t element = size_of(planner::compute_dtype(training.precision));
  const std::uint64_t moments = planner::moment_count(training.optimizer);
  Host host;
  if (optimizer && strategy.stage < 3) {  // DeepSpeed takes nvme for cpu below stage 3
    const double part = strategy.offload_optimizer.fraction;
    const auto offloaded = static_cast<std::uint64_t>(static_cast<double>(n) * part);
    host.add_pinned(offloaded, kFp32);
    host.add_pinned(offloaded, kFp32);
    host.add_pinned(offloaded, element);
    host.add_pageable(n, detail::checked_mul(moments, kFp32), part);
  } else if (optimizer) {
    const std::vector<std::uint64_t> groups = sub_groups(parts, std::max<std::uint64_t>(strategy.sub_group_size, 1));
    host.add_pinned(n, element);
    if (strategy.offload_optimizer.place == OffloadPlace::kNvme) {
      const std::uint64_t largest = groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end());
      host.add_pinned(detail::checked_mul(kOptimizerBuffers, largest), kFp32);
    } else {
      const double part = strategy.offload_optimizer.fraction;
      const auto on_device = static_cast<std::size_t>((1 - part) * static_cast<double>(groups.size()));
      for (std::size_t g = on_device; g < groups.size(); ++g) host.add_pinned(groups[g], kFp32);
      host.add_pageable(n, detail::checked_mul(1 + moments, kFp32), part);
    }
  }
  if (parameters) {
    const bool on_disk = strategy.offload_param.place == OffloadPlace::kNvme;
    std::uint64_t elements = on_disk ? kParameterBuffers * kParameterBuffer : 0;
    if (!on_disk) {
      for (const models::Parameter& p : model.parameters)
        elements += divide_up(p.shape.elements().count(), training.gpus);
    }
    host.add_pinned(elements, element);
  }
  return host.of_rank * training.ranks_per_node();
}

}  // namespace zeroplan::simulator
