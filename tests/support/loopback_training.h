// A few updates of a plan over loopback ranks, with weights and tokens that depend on nothing but their indices.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ranges.h"
#include "planner/plan.h"
#include "runtime/comm/loopback.h"
#include "runtime/executor.h"

namespace zeroplan::testing {

/// What a run shows; equal bits compare equal.
struct TrainingTrace {
  std::vector<double> losses;
  std::vector<double> norms;
  friend bool operator==(const TrainingTrace&, const TrainingTrace&) = default;
};

/// Weights and tokens by index, the same for every way to shard.
class IndexedHooks : public runtime::TaskHooks {
 public:
  IndexedHooks(const planner::Plan& plan, std::uint64_t rank, TrainingTrace& trace)
      : plan_(plan), rank_(rank), trace_(trace) {}

  void input(const runtime::StepPosition& position, const runtime::InputTarget& target) override {
    const std::uint64_t tokens = plan_.tokens_per_pass();
    const std::uint64_t pass = position.update * plan_.strategy.accumulation + position.micro_step;
    const std::uint64_t base = (pass * plan_.training.gpus + rank_) * tokens;
    for (std::uint64_t i = 0; i < tokens; ++i) {
      target.tokens[i] = static_cast<std::int32_t>((base + i) * 7919 % plan_.model.vocab);
      target.labels[i] = static_cast<std::int32_t>((base + i + 1) * 7919 % plan_.model.vocab);
    }
    if (target.scalars == nullptr) return;
    kernels::StepScalars& s = *target.scalars;
    s.learning_rate = 1e-2;
    s.weight_decay = 0.01;
    s.max_grad_norm = 1;
    s.min_coeff = 0;  // LAMB's ratios as they are
    s.max_coeff = 1e9;
    s.valid_tokens = static_cast<std::int64_t>(plan_.tokens_per_update());
    s.inverse_valid_tokens = 1.0 / static_cast<double>(s.valid_tokens);
    s.loss_sum = 0;
  }

  void load(const runtime::GroupState& state) override {
    fill(state.group, state.parameter_dtype, state.parameters, state.parameters_begin, state.parameters_count);
    if (state.master == nullptr) return;
    fill(state.group, DType::kFp32, reinterpret_cast<std::byte*>(state.master), state.states_begin, state.states_count);
  }

  void save(const runtime::GroupState&) override {}

  void finished(const runtime::StepPosition& position, const kernels::StepScalars& scalars) override {
    if (rank_ != 0) return;
    trace_.losses[position.update] = scalars.loss_sum * scalars.inverse_valid_tokens;
    trace_.norms[position.update] = scalars.grad_norm;
  }

 private:
  void fill(std::uint32_t group, DType dtype, std::byte* data, Elements first, Elements count) const {
    std::vector<float> values(count.count());
    const std::uint64_t begin = first.count();
    for (const planner::PartitionedTensor& tensor : plan_.partition.groups[group].tensors) {
      const bool ones = plan_.model.parameters[tensor.parameter].init == models::InitRule::kOnes;
      for (std::uint64_t e = 0; e < tensor.elements.count(); ++e) {
        const std::uint64_t at = tensor.offset.count() + e;
        if (at < begin || at >= begin + count.count()) continue;
        values[at - begin] = ones ? 1.0f : value(tensor.parameter, e);
      }
    }
    kernels::reference::copy({.out_dtype = dtype, .count = values.size(), .x = values.data(), .out = data});
  }

  /// Spread evenly over [-0.05, 0.05): a multiplicative hash of the indices.
  static float value(std::size_t parameter, std::uint64_t element) {
    std::uint64_t x = (parameter * 1000003 + element) * 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    x ^= x >> 32;
    return (static_cast<float>(x >> 40) / static_cast<float>(1 << 24) - 0.5f) * 0.1f;
  }

  const planner::Plan& plan_;
  std::uint64_t rank_;
  TrainingTrace& trace_;
};

/// Runs so many updates over as many loopback ranks as the plan has; `inspect` sees each rank afterwards. Throws the
/// first error of any rank.
inline TrainingTrace train_on_loopback(const planner::Plan& plan, std::uint64_t updates,
                                       const runtime::ExecutorOptions& options = {},
                                       const std::function<void(const runtime::Executor&)>& inspect = {}) {
  TrainingTrace trace{std::vector<double>(updates), std::vector<double>(updates)};
  runtime::StopSignal stop;
  runtime::LoopbackGroup group(plan.training.gpus, stop);
  std::vector<std::unique_ptr<runtime::Collectives>> ends;
  std::vector<std::unique_ptr<IndexedHooks>> hooks;
  std::vector<std::unique_ptr<runtime::Executor>> ranks;
  for (std::uint64_t r = 0; r < plan.training.gpus; ++r) {
    ends.push_back(group.rank(r));
    hooks.push_back(std::make_unique<IndexedHooks>(plan, r, trace));
    ranks.push_back(std::make_unique<runtime::Executor>(plan, *ends[r], *hooks[r], stop, options));
  }
  try {
    for (auto& rank : ranks) rank->start_phase("init");
    for (auto& rank : ranks) rank->wait();
    runtime::UpdateGate gate;
    gate.approve(updates);
    gate.close();
    for (auto& rank : ranks) rank->start_updates(0, gate);
    for (auto& rank : ranks) rank->wait();
    if (inspect) std::for_each(ranks.begin(), ranks.end(), [&](const auto& rank) { inspect(*rank); });
  } catch (const runtime::Stopped&) {
    std::rethrow_exception(stop.error());
  }
  return trace;
}

}  // namespace zeroplan::testing
