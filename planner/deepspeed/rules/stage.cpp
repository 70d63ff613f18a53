#include <fmt/format.h>

#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Keys of zero_optimization that act at some stages only.
struct StageKey {
  std::string_view name;
  int least;
  int most;
};
constexpr StageKey kStageKeys[] = {
    {"prefetch_bucket_size", 3, 3},         {"param_persistence_threshold", 3, 3},
    {"model_persistence_threshold", 3, 3},  {"max_live_parameters", 3, 3},
    {"max_reuse_distance", 3, 3},           {"gather_16bit_weights_on_model_save", 3, 3},
    {"module_granularity_threshold", 3, 3}, {"use_all_reduce_for_fetch_params", 3, 3},
    {"allgather_sequential", 3, 3},         {"sub_group_size", 3, 3},
    {"memory_efficient_linear", 3, 3},      {"zero_hpz_partition_size", 3, 3},
    {"zero_quantized_weights", 3, 3},       {"zero_quantized_nontrainable_weights", 3, 3},
    {"zero_quantized_gradients", 3, 3},     {"round_robin_gradients", 1, 2},
    {"elastic_checkpoint", 1, 2},           {"ignore_unused_parameters", 1, 2},
};

std::string given_name(const Workspace& work, std::string_view name) {
  for (const std::string prefix : {"zero_optimization.stage3_", "zero_optimization."}) {
    const std::string path = prefix + std::string(name);
    if (work.given.has(path)) return path;
  }
  return "";
}

void report_without_effect(Workspace& work) {
  const int stage = work.stage();
  for (const StageKey& key : kStageKeys) {
    const std::string path = given_name(work, key.name);
    if (path.empty() || (stage >= key.least && stage <= key.most)) continue;
    const bool harmless = work.given.is_auto(path) || work.given.is_false(path) || stage == 0;
    const std::string wanted = key.least == key.most ? fmt::format("stage {}", key.least)
                                                     : fmt::format("stages {} and {}", key.least, key.most);
    const std::string message =
        fmt::format("{} has no effect at stage {}, only at {}", path.substr(path.find('.') + 1), stage, wanted);
    if (harmless) {
      work.findings.info(path, message, "remove it, or change the stage");
    } else {
      work.findings.warning(path, message, "remove it, or change the stage");
    }
  }
  if (stage == 3) {
    for (const char* name : {"allgather_partitions", "allgather_bucket_size"}) {
      const std::string path = std::string("zero_optimization.") + name;
      if (work.given.has(path)) work.findings.info(path, fmt::format("{} has no effect at stage 3", name), "remove it");
    }
  }
  const Json* zero = work.given.find("zero_optimization");
  if (stage == 0 && zero != nullptr && zero->is_object() && zero->size() > (zero->contains("stage") ? 1 : 0)) {
    work.findings.warning("zero_optimization.stage",
                          zero->contains("stage")
                              ? "stage 0 shards nothing: the other keys of zero_optimization have no effect"
                              : "zero_optimization names no stage: DeepSpeed takes 0, which shards nothing",
                          "write the stage", 2);
  }
}

void check_reduction(Workspace& work) {
  const int stage = work.stage();
  const bool scatters = work.flag("zero_optimization.reduce_scatter", true);
  if (stage >= 2 && scatters && work.flag("prescale_gradients", false)) {
    work.findings.error("prescale_gradients",
                        fmt::format("prescale_gradients does not work at stage {} with reduce_scatter", stage),
                        "write false, or set reduce_scatter to false", false);
  }
  if (stage >= 2 && scatters && work.number("gradient_predivide_factor", 1) != 1) {
    work.findings.error("gradient_predivide_factor",
                        fmt::format("gradient_predivide_factor must be 1 at stage {} with reduce_scatter", stage),
                        "write 1.0", 1.0);
  }
  if (work.word("gradient_allreduce_op", "mean") == "sum" &&
      (stage == 3 || work.given.has("zero_optimization.zenflow"))) {
    work.findings.error("gradient_allreduce_op", "gradient_allreduce_op sum does not work at stage 3 or with ZenFlow",
                        "write mean", "mean");
  }
  if ((stage == 1 || stage == 2) && work.integer("zero_optimization.allgather_bucket_size", 0) % 2 != 0) {
    work.findings.error("zero_optimization.allgather_bucket_size",
                        "allgather_bucket_size must be even at stages 1 and 2", "write an even number",
                        work.integer("zero_optimization.allgather_bucket_size", 0) + 1);
  }
  if (work.flag("zero_optimization.legacy_stage1", false)) {
    work.findings.error("zero_optimization.legacy_stage1", "legacy_stage1 was removed from DeepSpeed: it stops",
                        "write false", false);
  }
  if (work.given.is_false("managed_gradient_accumulation") && stage < 2 &&
      work.flag("zero_optimization.overlap_comm", false)) {
    work.findings.error("managed_gradient_accumulation",
                        "managed_gradient_accumulation false does not work with overlap_comm below stage 2",
                        "write true", true);
  }
}

void check_memory_knobs(Workspace& work) {
  if (work.stage() == 3 && work.zero_integer("max_live_parameters", 1) == 0) {
    work.findings.warning("zero_optimization.stage3_max_live_parameters",
                          "0 switches prefetching off: every gather is waited for", "write 1e9", 1'000'000'000);
  }
  if (work.stage() == 3 && work.given.has("zero_optimization.sub_group_size") &&
      work.integer("zero_optimization.sub_group_size", 1) == 0) {
    work.findings.warning("zero_optimization.sub_group_size",
                          "sub_group_size 0 makes each parameter a group of its own", "write 1e9", 1'000'000'000);
  }
  if (work.given.has("activation_checkpointing") && work.someone_fills()) {
    work.findings.info("activation_checkpointing",
                       "this section acts only on models that call DeepSpeed's checkpointing; Hugging Face models "
                       "ignore it",
                       "use the trainer's gradient_checkpointing");
  }
}

}  // namespace

void check_stage(Workspace& work) {
  report_without_effect(work);
  check_reduction(work);
  check_memory_knobs(work);
}

}  // namespace zeroplan::planner::deepspeed
