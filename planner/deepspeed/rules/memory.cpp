#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/rules/rules.h"

namespace zeroplan::planner::deepspeed {
namespace {

std::string part(std::string_view name, Bytes bytes) {
  return fmt::format("{} {}", name, format_size(bytes));
}

Strategy strategy_of(const Workspace& work) {
  Strategy s = work.input.decisions.over_defaults();
  s.stage = static_cast<std::uint64_t>(work.stage());
  const auto place = [](const std::string& device) {
    return device == "cpu" ? OffloadPlace::kCpu : device == "nvme" ? OffloadPlace::kNvme : OffloadPlace::kNone;
  };
  s.offload_optimizer = {place(work.offload_device("offload_optimizer")), 1};
  s.offload_param = {s.stage == 3 ? place(work.offload_device("offload_param")) : OffloadPlace::kNone, 1};
  s.offload_gradients = s.offload_optimizer;
  const auto elements = [](std::int64_t value) { return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)); };
  s.reduce_bucket_size = elements(work.integer("zero_optimization.reduce_bucket_size", 500'000'000));
  s.sub_group_size = elements(work.integer("zero_optimization.sub_group_size", 1'000'000'000));
  s.prefetch_bucket_size = elements(work.zero_integer("prefetch_bucket_size", 50'000'000));
  s.param_persistence_threshold = elements(work.zero_integer("param_persistence_threshold", 100'000));
  s.max_live_parameters = elements(work.zero_integer("max_live_parameters", 1'000'000'000));
  return s;
}

TrainingSpec training_of(const Workspace& work) {
  TrainingSpec t = work.input.training;
  t.framework = Framework::kDeepspeed;
  t.precision = work.flag("bf16.enabled", false)   ? Precision::kBf16Mixed
                : work.flag("fp16.enabled", false) ? Precision::kFp16Mixed
                                                   : Precision::kFp32;
  return t;
}

}  // namespace

MemoryNeed closed_form_states(const models::Model& model, const TrainingSpec& training, const Strategy& strategy) {
  const std::uint64_t ranks = std::max<std::uint64_t>(training.gpus, 1);
  const std::uint64_t per_node = std::max<std::uint64_t>(training.ranks_per_node(), 1);
  const Elements all = model.total();
  const Elements trained = model.trainable();
  const std::uint64_t width = training.precision == Precision::kFp32 ? 4 : 2;
  const std::uint64_t master_width = width == 2 ? 4 : 0;
  const Elements shard(divide_up(trained.count(), ranks));
  const auto bytes = [](Elements n, std::uint64_t each) { return Bytes(detail::checked_mul(n.count(), each)); };
  const Bytes states =
      bytes(strategy.stage >= 1 ? shard : trained, master_width + 4 * moment_count(training.optimizer));
  const Bytes weights = bytes(strategy.stage == 3 ? Elements(divide_up(all.count(), ranks)) : all, width);
  const Bytes gradients = bytes(strategy.stage >= 2 ? shard : trained, width);
  const bool optimizer_away = strategy.offload_optimizer.any() && strategy.stage >= 1;
  const bool weights_away = strategy.offload_param.any() && strategy.stage == 3;
  MemoryNeed need;
  need.device = Bytes(0);
  need.host = Bytes(0);
  if (!weights_away) need.device += weights;
  if (!optimizer_away) need.device += states + gradients;
  if (optimizer_away && strategy.offload_optimizer.place == OffloadPlace::kCpu) {
    need.host += (states + bytes(shard, 4) + bytes(shard, width)) * per_node;  // with fp32 gradients and 16-bit staging
  }
  if (weights_away && strategy.offload_param.place == OffloadPlace::kCpu) need.host += weights * per_node;
  const std::string master = fmt::format("{} (fp32 master weights and moments)", part("optimizer states", states));
  need.largest = weights_away ? "" : part("weights", weights);
  if (!optimizer_away)
    need.largest += fmt::format("{}{}, {}", need.largest.empty() ? "" : ", ", part("gradients", gradients), master);
  return need;
}

void check_memory(Workspace& work) {
  if (!work.input.model || !work.input.machine) return;
  const Machine& machine = *work.input.machine;
  const TrainingSpec training = training_of(work);
  const MemoryNeed need = work.input.memory(*work.input.model, training, strategy_of(work));
  const std::string setting =
      fmt::format("stage {} on {} rank{}", work.stage(), training.gpus, training.gpus == 1 ? "" : "s");
  if (machine.device_bytes && need.device > *machine.device_bytes) {
    const bool optimizer_there = work.offload_device("offload_optimizer") == "none";
    std::string fix = work.stage() < 3 ? "raise zero_optimization.stage" : "use more GPUs";
    if (optimizer_there) fix += ", or offload_optimizer to cpu";
    work.findings.error(
        "memory",
        fmt::format("a GPU needs {} for the model states alone ({}: {}), it has {}", format_size(need.device), setting,
                    need.largest, format_size(*machine.device_bytes)),
        fix);
  }
  if (machine.host_bytes && need.host > *machine.host_bytes) {
    work.findings.error("memory",
                        fmt::format("a node needs {} of host memory for offloaded states ({}), it has {}",
                                    format_size(need.host), setting, format_size(*machine.host_bytes)),
                        "offload less, or to nvme");
  }
}

}  // namespace zeroplan::planner::deepspeed
