#include "planner/choice.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/batches.h"
#include "planner/memory_layout.h"
#include "planner/plan_maker.h"

namespace zeroplan::planner {
namespace {

/// Micro-batches that are tried under a global batch, largest first.
constexpr std::size_t kMostMicroBatches = 8;
/// A piece of the head has at least so many tokens, so that its matrix products stay efficient.
constexpr std::uint64_t kFewestTokensOfHeadPiece = 128;
/// Parameters of so many times the width stay gathered: norms and biases, whose gather would cost a latency for a few
/// bytes.
constexpr std::uint64_t kSmallParameterWidths = 10;

std::vector<Batch> batches_to_try(const TrainingSpec& training, const FixedDecisions& fixed) {
  if (!training.global_batch || (fixed.micro_batch && fixed.accumulation)) {
    return {{fixed.micro_batch.value_or(1), fixed.accumulation.value_or(1)}};
  }
  std::vector<Batch> batches = batches_of(*training.global_batch / training.gpus, kMostMicroBatches);
  std::reverse(batches.begin(), batches.end());
  return batches;
}

std::vector<std::uint64_t> stages_to_try(const FixedDecisions& fixed) {
  if (fixed.stage) return {*fixed.stage};
  return {0, 1, 2, 3};
}

std::vector<Recompute> recomputes_to_try(const FixedDecisions& fixed) {
  if (fixed.recompute) return {*fixed.recompute};
  return {Recompute::kNone, Recompute::kFull};
}

/// Elements of the largest unit: those that stage 3 gathers for it, or with the small ones those that are reduced for
/// it.
std::uint64_t largest_unit(const Partition& partition, bool with_small) {
  std::uint64_t most = 0;
  for (const auto& groups : partition.groups_of_unit) {
    std::uint64_t sum = 0;
    for (const std::size_t g : groups) {
      if (with_small || !partition.groups[g].is_small) sum += partition.groups[g].padded.count();
    }
    most = std::max(most, sum);
  }
  return std::max(most, partition.ranks * kTensorAlignment);
}

std::uint64_t pieces_of_head(const models::DecoderShape& shape, std::uint64_t tokens) {
  // Logits of a piece take no more than the widest tensors of a block, as long as the pieces stay large.
  const std::uint64_t wanted = divide_up(shape.vocab, 4 * std::max(shape.ffn, shape.hidden));
  const std::uint64_t most = std::max<std::uint64_t>(1, tokens / kFewestTokensOfHeadPiece);
  return std::clamp<std::uint64_t>(wanted, 1, most);
}

/// "block 7 / saved" -> "saved"; "block 3 / backward frame" -> "frame".
std::string kind_of(const std::string& name) {
  const std::size_t slash = name.rfind(" / ");
  std::string kind = slash == std::string::npos ? name : name.substr(slash + 3);
  if (kind.ends_with(" frame")) return "frames";
  if (kind.starts_with("gathered ")) return "gathered parameters";
  if (kind.starts_with("moment ")) return "optimizer moments";
  if (kind.starts_with("parameters")) return "parameters";
  if (kind.starts_with("residual")) return "residual stream";
  if (kind.starts_with("gradient")) return "gradients";
  if (kind == "saved") return "saved activations";
  return kind;
}

std::string holders_text(const std::vector<HolderRecord>& holders, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < holders.size() && i < most; ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", holders[i].name, format_size(holders[i].bytes));
  }
  return text;
}

class Chooser {
 public:
  Chooser(const models::Model& model, const Machine& machine, const TrainingSpec& training, const FixedDecisions& fixed,
          const Evaluator& evaluator)
      : model_(model), machine_(machine), training_(training), fixed_(fixed), evaluator_(evaluator) {}

  PlanChoice choose() {
    for (const Batch& batch : batches_to_try(training_, fixed_)) {
      for (const Recompute recompute : recomputes_to_try(fixed_)) {
        for (const std::uint64_t stage : stages_to_try(fixed_)) consider(batch, recompute, stage);
      }
    }
    pack_thoroughly();
    explain();
    return std::move(*best_);
  }

 private:
  void consider(const Batch& batch, Recompute recompute, std::uint64_t stage) {
    Strategy strategy = fixed_.over_defaults();
    strategy.micro_batch = batch.micro;
    strategy.accumulation = batch.accumulation;
    strategy.recompute = recompute;
    strategy.stage = stage;
    strategy = with_model_sizes(model_, training_, fixed_, strategy);
    PlanChoice choice;
    choice.plan = make_plan(model_, machine_, training_, strategy, kQuickPacking);
    choice.fit = judge_fit(choice.plan);
    choice.predicted = evaluator_.evaluate(choice.plan);
    candidates_.push_back({choice.plan.strategy, choice.fit,
                           choice.plan.tier(Tier::kDevice).arena + machine_.context_bytes, choice.predicted.step,
                           choice.predicted.tokens_per_s});
    if (!best_ || better(choice, *best_)) best_ = std::move(choice);
  }

  /// Candidates are packed with little effort; the chosen one becomes what make_plan gives for its strategy.
  void pack_thoroughly() {
    if (is_laid_out_tightly(best_->plan)) return;
    lay_out_memory(best_->plan);
    best_->fit = judge_fit(best_->plan);
    best_->predicted = evaluator_.evaluate(best_->plan);
  }

  static bool better(const PlanChoice& a, const PlanChoice& b) {
    if (a.fit.verdict != b.fit.verdict) return a.fit.verdict < b.fit.verdict;
    const Bytes need_a = a.plan.tier(Tier::kDevice).arena;
    const Bytes need_b = b.plan.tier(Tier::kDevice).arena;
    if (a.fit.verdict == Verdict::kNo) return need_a < need_b;
    // A difference below a thousandth is no reason to take the plan that needs more.
    if (std::abs(a.predicted.tokens_per_s / b.predicted.tokens_per_s - 1) < 1e-3) return need_a < need_b;
    return a.predicted.tokens_per_s > b.predicted.tokens_per_s;
  }

  void explain() {
    PlanChoice& choice = *best_;
    const Plan& plan = choice.plan;
    const TierPlan& device = plan.tier(Tier::kDevice);
    const Bytes need = device.arena + machine_.context_bytes;
    const std::string holders = holders_text(holders_by_kind(plan, Tier::kDevice), 3);
    if (!machine_.device_bytes) {
      choice.why.push_back(
          fmt::format("device memory: {} needed, no limit given; largest: {}", format_size(need), holders));
    } else if (need > *machine_.device_bytes) {
      choice.why.push_back(fmt::format("device memory is short by {}: {} needed, {} there; largest: {}",
                                       format_size(need - *machine_.device_bytes), format_size(need),
                                       format_size(*machine_.device_bytes), holders));
    } else {
      choice.why.push_back(fmt::format("device memory: {} of {} needed; largest: {}", format_size(need),
                                       format_size(*machine_.device_bytes), holders));
    }
    explain_stage(choice);
    const Strategy& s = plan.strategy;
    if (!fixed_.reduce_bucket_size) {
      choice.why.push_back(
          fmt::format("reduce buckets of {} elements, gathers of as many: the largest unit in one collective",
                      format_count(s.reduce_bucket_size)));
    }
    if (!fixed_.param_persistence_threshold && s.stage == 3) {
      choice.why.push_back(
          fmt::format("parameters of at most {} elements ({} x the width) stay gathered: a gather of them would be "
                      "all latency",
                      format_count(s.param_persistence_threshold), kSmallParameterWidths));
    }
    if (!fixed_.head_chunks && s.head_chunks > 1) {
      choice.why.push_back(fmt::format("head and loss in {} pieces: the logits of all {} tokens would take {}",
                                       s.head_chunks, format_count(plan.tokens_per_pass()),
                                       format_size(Shape{plan.tokens_per_pass(), model_.decoder->vocab}.elements() *
                                                   compute_dtype(training_.precision))));
    }
    choice.candidates = std::move(candidates_);
  }

  /// Why the other stages and ways to recompute lost.
  void explain_stage(PlanChoice& choice) const {
    const Strategy& chosen = choice.plan.strategy;
    for (const Candidate& c : candidates_) {
      const bool same_batch = c.strategy.micro_batch == chosen.micro_batch;
      const bool is_chosen = c.strategy.stage == chosen.stage && c.strategy.recompute == chosen.recompute;
      if (!same_batch || is_chosen) continue;
      const std::string name = fmt::format("stage {}, recompute {}", c.strategy.stage, name_of(c.strategy.recompute));
      if (c.fit.verdict == Verdict::kNo) {
        choice.why.push_back(fmt::format("{} needs {} on the device", name, format_size(c.device_need)));
      } else if (c.step && *c.step > choice.predicted.step) {
        choice.why.push_back(fmt::format("{} would fit and take {} a step instead of {} (predicted)", name,
                                         format_duration(*c.step), format_duration(choice.predicted.step)));
      }
    }
  }

  const models::Model& model_;
  const Machine& machine_;
  const TrainingSpec& training_;
  const FixedDecisions& fixed_;
  const Evaluator& evaluator_;
  std::vector<Candidate> candidates_;
  std::optional<PlanChoice> best_;
};

}  // namespace

FitResult judge_fit(const Plan& plan) {
  FitResult result;
  double nearest = kTightFraction;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const TierPlan& t = plan.tier(tier);
    if (!t.budget) continue;
    if (t.arena > *t.budget) return {Verdict::kNo, tier};
    const double left =
        t.budget->count() == 0 ? 1 : 1 - static_cast<double>(t.arena.count()) / static_cast<double>(t.budget->count());
    if (left < nearest) {
      nearest = left;
      result = {Verdict::kTight, tier};
    }
  }
  return result;
}

Strategy with_model_sizes(const models::Model& model, const TrainingSpec& training, const FixedDecisions& fixed,
                          Strategy strategy) {
  if (!model.decoder) return strategy;
  const models::DecoderShape& shape = *model.decoder;
  if (!fixed.param_persistence_threshold) strategy.param_persistence_threshold = kSmallParameterWidths * shape.hidden;
  const Partition partition = make_partition(model, training.gpus, strategy.param_persistence_threshold);
  const std::uint64_t largest = largest_unit(partition, false);
  if (!fixed.reduce_bucket_size) strategy.reduce_bucket_size = largest_unit(partition, true);
  if (!fixed.allgather_bucket_size) strategy.allgather_bucket_size = largest;
  if (!fixed.prefetch_bucket_size) strategy.prefetch_bucket_size = largest;
  if (!fixed.max_live_parameters) strategy.max_live_parameters = detail::checked_mul(3, largest);
  if (!fixed.max_reuse_distance) strategy.max_reuse_distance = 0;
  if (!fixed.head_chunks) strategy.head_chunks = pieces_of_head(shape, strategy.micro_batch * training.seq);
  return strategy;
}

PlanChoice choose_plan(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                       const FixedDecisions& fixed, const Evaluator& evaluator) {
  return Chooser(model, machine, training, fixed, evaluator).choose();
}

std::vector<HolderRecord> holders_by_kind(const Plan& plan, Tier tier) {
  std::map<std::string, Bytes> sums;
  for (const BufferId id : plan.tier(tier).lower_bound_holders) {
    sums[kind_of(plan.buffers[id].name)] += round_up(plan.buffers[id].bytes, plan.tier(tier).alignment);
  }
  std::vector<HolderRecord> holders;
  for (const auto& [name, bytes] : sums) holders.push_back({name, bytes});
  std::stable_sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return holders;
}

}  // namespace zeroplan::planner
