#include "planner/deepspeed/elasticity.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/rules/rules.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Highly composite numbers: more divisors than any smaller number (OEIS A002182), as far as a batch size goes.
constexpr std::uint64_t kHighlyComposite[] = {
    1,     2,     4,     6,      12,     24,     36,     48,     60,     120,    180,    240,   360,
    720,   840,   1260,  1680,   2520,   5040,   7560,   10080,  15120,  20160,  25200,  27720, 45360,
    50400, 55440, 83160, 110880, 166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};
constexpr std::uint64_t kMostBatch = std::uint64_t{1} << 31;

std::uint64_t scaled(std::uint64_t base, std::uint64_t most) {
  if (base >= most) return base;
  std::uint64_t factor = 1;
  for (const std::uint64_t number : kHighlyComposite) {
    if (number <= most / base) factor = number;
  }
  return base * factor;
}

std::vector<std::uint64_t> ranks_of_batch(std::uint64_t batch, const std::vector<std::uint64_t>& micro_sizes,
                                          std::uint64_t least, std::uint64_t most) {
  std::set<std::uint64_t> ranks;
  for (const std::uint64_t micro : micro_sizes) {
    if (batch % micro != 0) continue;
    const std::uint64_t units = batch / micro;
    for (std::uint64_t n = 1; n * n <= units; ++n) {
      if (units % n != 0) continue;
      for (const std::uint64_t candidate : {n, units / n}) {
        if (candidate >= least && candidate <= most) ranks.insert(candidate);
      }
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::optional<std::vector<std::uint64_t>> micro_sizes_of(Workspace& work, std::uint64_t most) {
  const Json* list = work.filled.find("elasticity.micro_batch_sizes");
  std::vector<std::uint64_t> sizes;
  if (list != nullptr && list->is_array() && list->size() <= 64) {
    for (const Json& element : *list) {
      const auto value = element.is_number() ? coerce_integer(element) : std::nullopt;
      if (!value || *value < 1 || static_cast<std::uint64_t>(*value) > most) {
        sizes.clear();
        break;
      }
      sizes.push_back(static_cast<std::uint64_t>(*value));
    }
  }
  if (!sizes.empty()) return sizes;
  work.findings.error(
      "elasticity.micro_batch_sizes",
      fmt::format("micro_batch_sizes must list positive integers of at most max_train_batch_size ({})", most),
      "write a list such as [2, 4]");
  return std::nullopt;
}

}  // namespace

ElasticBatch best_elastic_batch(const std::vector<std::uint64_t>& micro_sizes, std::uint64_t most,
                                std::uint64_t min_ranks, std::uint64_t max_ranks, bool prefer_larger) {
  std::vector<std::uint64_t> bases = micro_sizes;
  std::uint64_t common = 1;
  for (const std::uint64_t size : micro_sizes) {
    common = std::lcm(common, size);
    if (common > kMostBatch) break;
  }
  if (common <= kMostBatch) bases.push_back(common);
  std::set<std::uint64_t> candidates;
  for (const std::uint64_t base : bases) candidates.insert(scaled(base, most));
  ElasticBatch best;
  for (const std::uint64_t batch : candidates) {
    std::vector<std::uint64_t> ranks = ranks_of_batch(batch, micro_sizes, min_ranks, max_ranks);
    const bool larger_counts = prefer_larger ? batch > best.batch : batch < best.batch;
    if (ranks.size() > best.valid_ranks.size() || (ranks.size() == best.valid_ranks.size() && larger_counts)) {
      best = {batch, std::move(ranks)};
    }
  }
  return best;
}

bool apply_elasticity(Workspace& work) {
  if (!work.flag("elasticity.enabled", false)) return false;
  const std::int64_t most = work.integer("elasticity.max_train_batch_size", 0);
  if (most < 1 || static_cast<std::uint64_t>(most) > kMostBatch) {
    work.findings.error("elasticity.max_train_batch_size",
                        "an enabled elasticity section needs max_train_batch_size, at least 1",
                        "write the largest global batch size that is acceptable");
    return true;
  }
  const auto sizes = micro_sizes_of(work, static_cast<std::uint64_t>(most));
  if (!sizes) return true;
  if (!work.flag("elasticity.ignore_non_elastic_batch_info", false)) {
    for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
      if (!work.given.has(key)) continue;
      work.findings.error(
          key,
          fmt::format("{} stands beside an enabled elasticity section, which takes control of it: DeepSpeed stops",
                      key),
          "remove the key, or set elasticity.ignore_non_elastic_batch_info to true");
    }
  }
  const auto at_least_one = [&work](const char* path, std::int64_t fallback) {
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(work.integer(path, fallback), 1, 1 << 20));
  };
  const std::uint64_t world = work.report.resolved.world_size;
  const bool by_node = work.number("elasticity.version", 0.2) >= 0.2;
  const std::uint64_t per_node =
      by_node
          ? std::max<std::uint64_t>(
                at_least_one("elasticity.num_gpus_per_node", 1) / at_least_one("elasticity.model_parallel_size", 1), 1)
          : 1;
  const ElasticBatch best =
      best_elastic_batch(*sizes, static_cast<std::uint64_t>(most) / per_node,
                         std::max<std::uint64_t>(at_least_one("elasticity.min_gpus", 1) / per_node, 1),
                         std::max<std::uint64_t>(at_least_one("elasticity.max_gpus", 10000) / per_node, 1),
                         work.flag("elasticity.prefer_larger_batch", true));
  const std::uint64_t batch = best.batch * per_node;
  std::vector<std::uint64_t> ranks = best.valid_ranks;
  for (std::uint64_t& n : ranks) n *= per_node;
  if (std::find(ranks.begin(), ranks.end(), world) == ranks.end()) {
    std::string listed;
    for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 12); ++i)
      listed += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
    work.findings.error("elasticity", fmt::format("{} ranks are not valid for the elastic batch size {}", world, batch),
                        fmt::format("run on {} ranks", listed));
    return true;
  }
  std::uint64_t micro = 0;
  for (const std::uint64_t size : *sizes) {
    if ((batch / world) % size == 0) micro = std::max(micro, size);
  }
  work.report.resolved.train_batch_size = batch;
  if (micro > 0) {
    work.report.resolved.micro_batch_size = micro;
    work.report.resolved.accumulation_steps = batch / (micro * world);
  }
  return true;
}

}  // namespace zeroplan::planner::deepspeed
