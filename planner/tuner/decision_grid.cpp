#include "planner/tuner/decision_grid.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "planner/batches.h"
#include "planner/choice.h"

namespace zeroplan::planner {
namespace {

std::vector<Batch> batches_to_try(const TrainingSpec& training, const FixedDecisions& fixed, const GridValues& values) {
  const std::uint64_t passes = fixed.accumulation.value_or(1);
  if (fixed.micro_batch) return {{*fixed.micro_batch, passes}};
  std::vector<Batch> batches;
  if (!training.global_batch) {
    for (const std::uint64_t micro : values.micro_batches) batches.push_back({micro, passes});
    return batches;
  }
  batches = batches_of(*training.global_batch / training.gpus, values.most_micro_batches);
  std::reverse(batches.begin(), batches.end());
  return batches;
}

struct RecomputeChoice {
  Recompute kind = Recompute::kNone;
  std::uint64_t blocks = 0;
};

std::vector<RecomputeChoice> recomputes_to_try(const models::Model& model, const FixedDecisions& fixed,
                                               const GridValues& values) {
  if (fixed.recompute) return {{*fixed.recompute, fixed.recompute_blocks.value_or(0)}};
  const std::uint64_t layers = model.decoder ? model.decoder->layers : 1;
  if (fixed.recompute_blocks) return {{Recompute::kFull, *fixed.recompute_blocks}};
  std::vector<RecomputeChoice> choices;
  for (const double part : values.recomputed_parts) {
    const auto blocks = static_cast<std::uint64_t>(std::llround(part * static_cast<double>(layers)));
    RecomputeChoice choice{blocks == 0 ? Recompute::kNone : Recompute::kFull, blocks};
    const auto same = [&](const RecomputeChoice& c) { return c.kind == choice.kind && c.blocks == choice.blocks; };
    if (std::none_of(choices.begin(), choices.end(), same)) choices.push_back(choice);
    if (blocks == 0 && values.selective_recompute) choices.push_back({Recompute::kSelective, layers});
  }
  return choices;
}

/// factor x elements, rounded to whole elements within 63 bits.
std::uint64_t scaled(double factor, std::uint64_t elements) {
  const double product = factor * static_cast<double>(elements);
  return product >= 9e18 ? std::uint64_t{9'000'000'000'000'000'000} : static_cast<std::uint64_t>(std::llround(product));
}

/// Replaces each strategy by its variants.
void vary(std::vector<Strategy>& leaves, const std::function<void(const Strategy&, std::vector<Strategy>&)>& variants) {
  std::vector<Strategy> result;
  for (const Strategy& leaf : leaves) variants(leaf, result);
  leaves.swap(result);
}

}  // namespace

DecisionGrid::DecisionGrid(const models::Model& model, const TrainingSpec& training, const FixedDecisions& fixed,
                           const GridValues& values)
    : model_(model), training_(training), fixed_(fixed), values_(values) {
  for (const Batch& batch : batches_to_try(training, fixed, values)) add_outlines(batch.micro, batch.accumulation);
}

Strategy DecisionGrid::completed(const Strategy& outline) const {
  return with_model_sizes(model_, training_, fixed_, outline);
}

void DecisionGrid::add_outlines(std::uint64_t micro_batch, std::uint64_t accumulation) {
  const std::vector<std::uint64_t> stages = fixed_.stage ? std::vector{*fixed_.stage} : values_.stages;
  const auto factors = fixed_.head_chunks ? std::vector<std::uint64_t>{1} : values_.head_chunk_factors;
  for (const RecomputeChoice& recompute : recomputes_to_try(model_, fixed_, values_)) {
    for (const std::uint64_t factor : factors) {
      for (const std::uint64_t stage : stages) {
        Strategy s = fixed_.over_defaults();
        s.stage = stage;
        s.micro_batch = micro_batch;
        s.accumulation = accumulation;
        s.recompute = recompute.kind;
        s.recompute_blocks = recompute.blocks;
        s = completed(s);
        s.head_chunks = std::min(s.head_chunks * factor, std::max<std::uint64_t>(1, micro_batch * training_.seq));
        if (std::find(outlines_.begin(), outlines_.end(), s) == outlines_.end()) outlines_.push_back(s);
      }
    }
  }
}

std::vector<Strategy> DecisionGrid::leaves(std::size_t outline) const {
  std::vector<Strategy> leaves = {outlines_.at(outline)};
  const Strategy base = leaves.front();  // a copy: `leaves` is replaced below
  const bool gathers = base.stage == 3;
  const std::uint64_t width = model_.decoder ? model_.decoder->hidden : 1;
  if (gathers && !fixed_.param_persistence_threshold) {
    vary(leaves, [&](const Strategy& leaf, std::vector<Strategy>& out) {
      for (const double widths : values_.persistence_widths) {
        FixedDecisions fixed = fixed_;
        fixed.head_chunks = leaf.head_chunks;
        fixed.param_persistence_threshold = scaled(widths, width);
        Strategy s = leaf;
        s.param_persistence_threshold = *fixed.param_persistence_threshold;
        out.push_back(with_model_sizes(model_, training_, fixed, s));
      }
    });
  }
  const auto vary_size = [&](bool is_open, const std::vector<double>& factors, std::uint64_t Strategy::*size) {
    if (!is_open) return;
    vary(leaves, [&](const Strategy& leaf, std::vector<Strategy>& out) {
      for (const double factor : factors) {
        Strategy s = leaf;
        s.*size = std::max<std::uint64_t>(1, scaled(factor, leaf.*size));
        out.push_back(s);
      }
    });
  };
  vary_size(!fixed_.reduce_bucket_size && training_.gpus > 1, values_.reduce_buckets, &Strategy::reduce_bucket_size);
  vary_size(!fixed_.allgather_bucket_size && base.stage > 0 && !gathers, values_.allgather_buckets,
            &Strategy::allgather_bucket_size);
  vary_size(!fixed_.prefetch_bucket_size && gathers, values_.prefetch, &Strategy::prefetch_bucket_size);
  if (gathers && !fixed_.max_live_parameters && !fixed_.max_reuse_distance) {
    vary(leaves, [&](const Strategy& leaf, std::vector<Strategy>& out) {
      const std::uint64_t unit =
          std::max<std::uint64_t>(1, leaf.max_live_parameters / 3);  // as with_model_sizes has it
      for (const ResidencyFactors& residency : values_.residencies) {
        Strategy s = leaf;
        s.max_live_parameters = scaled(residency.live_units, unit);
        s.max_reuse_distance = scaled(residency.reuse_units, unit);
        out.push_back(s);
      }
    });
  }
  return leaves;
}

std::uint64_t DecisionGrid::size() const {
  std::uint64_t sum = 0;
  for (std::size_t o = 0; o < outlines_.size(); ++o) sum += leaves(o).size();
  return sum;
}

}  // namespace zeroplan::planner
