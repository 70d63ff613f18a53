#include "simulator/profiles/advice.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "models/core/error.h"

namespace zeroplan::simulator {
namespace {

using planner::Framework;
using planner::Method;
using planner::Precision;

constexpr std::size_t kShown = 3;
constexpr std::uint64_t kMostSequences = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 24;

/// What a run asks of its GPU with another specification or strategy.
class Asker {
 public:
  explicit Asker(const ProfileRequest& request) : request_(request) {}

  std::uint64_t process_bytes(const planner::TrainingSpec& spec, const planner::Strategy& strategy) const {
    const TrainedParameters trained = trained_parameters(request_.model, spec);
    return predict_peak({request_.model, trained, spec, strategy, request_.machine, request_.allocator})
        .process_bytes();
  }
  std::uint64_t with_micro_batch(std::uint64_t n) const {
    planner::Strategy strategy = request_.strategy;
    strategy.micro_batch = n;
    return process_bytes(request_.spec, strategy);
  }
  std::uint64_t with_seq(std::uint64_t steps) const {
    planner::TrainingSpec spec = request_.spec;
    spec.seq = steps * kSeqStep;
    return process_bytes(spec, request_.strategy);
  }

 private:
  const ProfileRequest& request_;
};

/// The largest n in [1, most] with bytes(n) <= budget, 0 if there is none. Memory grows about linearly with n, so that
/// the next guess is interpolated; the answer was asked for, and so was the number after it.
std::uint64_t largest(const std::function<std::uint64_t(std::uint64_t)>& bytes, std::uint64_t budget,
                      std::uint64_t most) {
  std::uint64_t low = 0;
  std::uint64_t low_bytes = 0;
  std::uint64_t high = 0;
  std::uint64_t high_bytes = 0;
  for (std::uint64_t n = 1; high == 0; n = std::min(most, 2 * n)) {
    const std::uint64_t found = bytes(n);
    if (found > budget) {
      high = n;
      high_bytes = found;
    } else if (n == most) {
      return most;
    } else {
      low = n;
      low_bytes = found;
    }
  }
  while (high - low > 1) {
    const double part = static_cast<double>(budget - low_bytes) / static_cast<double>(high_bytes - low_bytes);
    const auto step = static_cast<std::uint64_t>(part * static_cast<double>(high - low));
    const std::uint64_t guess = std::clamp(low + step, low + 1, high - 1);
    const std::uint64_t found = bytes(guess);
    if (found > budget) {
      high = guess;
      high_bytes = found;
    } else {
      low = guess;
      low_bytes = found;
    }
  }
  return low;
}

/// A change that may be tried: what costs least comes first.
struct CandidateChange {
  std::string flags;
  std::string why;
  planner::TrainingSpec spec;
  planner::Strategy strategy;
};

/// Changes to a ZeRO or fully sharded run: where states lie.
void add_placement(std::vector<CandidateChange>& list, const ProfileRequest& r) {
  const Framework framework = r.spec.framework;
  if (framework == Framework::kDeepspeed && r.strategy.stage < 3) {
    CandidateChange c{.flags = "--stage 3",
                      .why = "weights are sharded as well, at the price of gathers",
                      .spec = r.spec,
                      .strategy = r.strategy};
    c.strategy.stage = 3;
    list.push_back(c);
  }
  if (framework == Framework::kDeepspeed && r.strategy.stage >= 1 && !r.strategy.offload_optimizer.any()) {
    CandidateChange c{.flags = "--offload-optimizer cpu",
                      .why = "master weights and moments move to the host, whose update is slower",
                      .spec = r.spec,
                      .strategy = r.strategy};
    c.strategy.offload_optimizer = {planner::OffloadPlace::kCpu, 1};
    list.push_back(c);
  }
  const bool shards_weights =
      framework == Framework::kFsdp2 || (framework == Framework::kDeepspeed && r.strategy.stage == 3);
  if (shards_weights && !r.strategy.offload_param.any()) {
    CandidateChange c{.flags = "--offload-param cpu",
                      .why = "shards come from the host for every gather",
                      .spec = r.spec,
                      .strategy = r.strategy};
    c.strategy.offload_param = {planner::OffloadPlace::kCpu, 1};
    list.push_back(c);
  }
  if (framework == Framework::kPytorch || framework == Framework::kDdp) {
    CandidateChange c{.flags = "--framework fsdp2 --gpus " + std::to_string(std::max<std::uint64_t>(2, r.spec.gpus)),
                      .why = "weights, gradients and states are sharded over the GPUs",
                      .spec = r.spec,
                      .strategy = r.strategy};
    c.spec.framework = Framework::kFsdp2;
    c.spec.gpus = std::max<std::uint64_t>(2, r.spec.gpus);
    c.strategy.stage = 3;
    if (c.spec.precision == Precision::kAmp) c.spec.precision = Precision::kBf16Mixed;
    list.push_back(c);
  } else {
    CandidateChange c{.flags = "--gpus " + std::to_string(2 * r.spec.gpus),
                      .why = "each GPU keeps half the share",
                      .spec = r.spec,
                      .strategy = r.strategy};
    c.spec.gpus = 2 * r.spec.gpus;
    c.spec.nodes = 2 * r.spec.nodes;
    list.push_back(c);
  }
}

std::vector<CandidateChange> candidates(const ProfileRequest& r) {
  std::vector<CandidateChange> list;
  const auto add = [&](std::string flags, std::string why, const std::function<void(CandidateChange&)>& change) {
    CandidateChange c{.flags = std::move(flags), .why = std::move(why), .spec = r.spec, .strategy = r.strategy};
    change(c);
    list.push_back(std::move(c));
  };
  if (r.spec.attention == planner::AttentionKind::kEager) {
    add("--attention sdpa", "scores are not kept in memory; the same results",
        [](CandidateChange& c) { c.spec.attention = planner::AttentionKind::kSdpa; });
  }
  const bool torch_update = r.spec.framework != Framework::kDeepspeed;
  if (torch_update && r.spec.optimizer_impl != planner::OptimizerImplementation::kFused) {
    add("--optimizer-impl fused", "the update needs no temporaries; the same results",
        [](CandidateChange& c) { c.spec.optimizer_impl = planner::OptimizerImplementation::kFused; });
  }
  if (r.strategy.micro_batch > 1) {
    const std::uint64_t passes = r.strategy.accumulation * r.strategy.micro_batch;
    add(fmt::format("--micro-batch 1 --accumulation {}", passes), "the same global batch in smaller passes",
        [passes](CandidateChange& c) {
          c.strategy.micro_batch = 1;
          c.strategy.accumulation = passes;
        });
  }
  if (r.strategy.recompute != planner::Recompute::kFull) {
    add("--recompute full", "only the inputs of blocks are kept; about a third more computation",
        [](CandidateChange& c) { c.strategy.recompute = planner::Recompute::kFull; });
  }
  add_placement(list, r);
  const bool wide = r.spec.precision == Precision::kFp32;
  if (wide && (r.spec.framework == Framework::kPytorch || r.spec.framework == Framework::kDdp)) {
    add("--precision amp", "activations in 16 bits; weights and states as they are",
        [](CandidateChange& c) { c.spec.precision = Precision::kAmp; });
  }
  if (r.spec.precision != Precision::kBf16) {
    add("--precision bf16", "weights, gradients and moments in 16 bits: training may be less stable",
        [](CandidateChange& c) { c.spec.precision = Precision::kBf16; });
  }
  if (r.spec.optimizer == planner::OptimizerKind::kAdamW && torch_update && r.spec.method == Method::kFull) {
    add("--optimizer adamw-8bit", "moments in 8 bits",
        [](CandidateChange& c) { c.spec.optimizer = planner::OptimizerKind::kAdamW8bit; });
  }
  if (r.spec.method == Method::kFull) {
    add("--method lora", "only small adapters are trained, so that gradients and states all but vanish",
        [](CandidateChange& c) { c.spec.method = Method::kLora; });
  }
  return list;
}

/// What fits comes first, in the order of what it costs; then what saves most.
std::vector<Change> changes(const ProfileRequest& request, const Asker& asker, std::uint64_t now,
                            std::uint64_t budget) {
  std::vector<Change> list;
  for (const CandidateChange& c : candidates(request)) {
    std::uint64_t bytes = 0;
    try {
      bytes = asker.process_bytes(c.spec, c.strategy);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported && e.code() != ErrorCode::kUsage) throw;
      continue;  // the model does not take this change
    }
    if (bytes >= now) continue;
    list.push_back({c.flags, c.why, bytes, now - bytes, bytes <= budget});
  }
  std::stable_sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
    if (a.fits != b.fits) return a.fits;
    return !a.fits && a.saved_bytes > b.saved_bytes;
  });
  if (list.size() > kShown) list.resize(kShown);
  return list;
}

}  // namespace

BudgetAnswer answer_for_budget(const ProfileRequest& request, const PeakPrediction& peak, Bytes budget) {
  const Asker asker(request);
  BudgetAnswer answer;
  if (peak.process_bytes() > budget.count()) {
    answer.changes = changes(request, asker, peak.process_bytes(), budget.count());
  }
  answer.largest_micro_batch =
      largest([&](std::uint64_t n) { return asker.with_micro_batch(n); }, budget.count(), kMostSequences);
  const std::uint64_t longest = request.model.positions > 0 ? request.model.positions : kMostTokens;
  const std::uint64_t steps = std::max<std::uint64_t>(1, longest / kSeqStep);
  answer.largest_seq = kSeqStep * largest([&](std::uint64_t n) { return asker.with_seq(n); }, budget.count(), steps);
  return answer;
}

}  // namespace zeroplan::simulator
