#include "planner/schedule/skeleton.h"

#include <fmt/format.h>

#include "planner/schedule/schedule_writer.h"

namespace zeroplan::planner {
namespace {

constexpr std::size_t kMostTasks = 50'000;
/// Cache lines on the CPU; on a GPU the alignment of its vector accesses and of the libraries' workspaces.
constexpr std::uint64_t kCpuAlignment = 64;
constexpr std::uint64_t kCudaAlignment = 256;

Error unsupported(std::string message, std::string hint) {
  return Error(ErrorCode::kUnsupported, std::move(message)).hint(std::move(hint));
}

Error contradiction(std::string_view flag, std::uint64_t value, std::string_view expected) {
  return Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", flag, value, expected))
      .at({.key = std::string(flag), .value = fmt::format("{}", value)});
}

void check_model(const models::Model& model, const TrainingSpec& training) {
  if (!model.decoder) {
    throw unsupported(
        fmt::format("{}: the native runtime does not train the family {}", model.name, model.family),
        "native plans exist for gpt2, llama, mistral, qwen2 and qwen3; others: --framework deepspeed or fsdp2");
  }
  const models::DecoderShape& shape = *model.decoder;
  if (shape.learned_positions && training.seq > shape.positions) {
    throw contradiction("--seq", training.seq, fmt::format("at most {}, the model's position table", shape.positions));
  }
  if (training.framework != Framework::kNative)
    throw unsupported("only native runs have a plan file", "--framework native");
  if (training.method != Method::kFull) {
    throw unsupported(fmt::format("--method {}: a native plan trains all parameters", name_of(training.method)),
                      "--method full, or another --framework");
  }
  if (!training.freeze.empty())
    throw unsupported("--freeze: a native plan trains all parameters", "another --framework");
  if (training.attention != AttentionKind::kSdpa) {
    throw unsupported("--attention eager: native kernels never keep the scores", "--attention sdpa");
  }
  if (training.optimizer == OptimizerKind::kAdafactor || training.optimizer == OptimizerKind::kAdamW8bit) {
    throw unsupported(fmt::format("--optimizer {}: native plans update by adamw, adam, sgd, lion, adagrad or lamb",
                                  name_of(training.optimizer)),
                      "--optimizer adamw, or another --framework");
  }
}

void check_strategy(const Strategy& s) {
  if (s.stage > 3) throw contradiction("--stage", s.stage, "0, 1, 2 or 3");
  if (s.micro_batch == 0) throw contradiction("--micro-batch", 0, "at least 1");
  if (s.accumulation == 0) throw contradiction("--accumulation", 0, "at least 1");
  if (s.head_chunks == 0) throw contradiction("--head-chunks", 0, "at least 1");
  if (s.sub_group_size == 0) throw contradiction("--sub-group-size", 0, "at least 1");
  if (s.offload_optimizer.any() || s.offload_param.any() || s.offload_gradients.any() || s.offload_activations.any()) {
    throw unsupported("native plans keep all states on the device",
                      "leave the --offload flags out, or use --framework deepspeed");
  }
}

std::optional<Bytes> device_budget(const Machine& machine) {
  if (!machine.device_bytes) return std::nullopt;
  return *machine.device_bytes > machine.context_bytes ? *machine.device_bytes - machine.context_bytes : Bytes();
}

void set_tiers(Plan& plan) {
  const std::uint64_t alignment = plan.training.backend == BackendKind::kCuda ? kCudaAlignment : kCpuAlignment;
  for (TierPlan& tier : plan.tiers) tier.alignment = alignment;
  plan.tier(Tier::kDisk).alignment = 4096;
  const std::uint64_t sharing = plan.training.ranks_per_node();
  plan.tier(Tier::kDevice).budget = device_budget(plan.machine);
  if (plan.machine.host_bytes) plan.tier(Tier::kHost).budget = *plan.machine.host_bytes / sharing;
  if (plan.machine.disk_bytes) plan.tier(Tier::kDisk).budget = *plan.machine.disk_bytes / sharing;
}

}  // namespace

Plan build_skeleton(const models::Model& model, const Machine& machine, const TrainingSpec& training,
                    const Strategy& strategy) {
  training.validate();
  check_model(model, training);
  check_strategy(strategy);
  Plan plan;
  plan.model = model;
  plan.machine = machine;
  plan.training = training;
  plan.strategy = strategy;
  plan.strategy.recompute_blocks = recomputed_blocks(model, strategy);
  set_tiers(plan);
  plan.lanes = {Lane::kCompute, Lane::kGather, Lane::kReduce};
  plan.partition = make_partition(model, training.gpus, strategy.param_persistence_threshold);
  PlanDraft draft(plan);
  auto programs = make_unit_programs(plan);
  auto states = make_state_buffers(draft);
  ScheduleContext context{draft, std::move(states), std::move(programs)};
  write_init(context);
  write_training_steps(context);
  write_save(context);
  write_eval(context);
  std::size_t tasks = 0;
  for (const Step& step : plan.steps) tasks += step.tasks.size();
  if (tasks > kMostTasks) {
    throw Error(ErrorCode::kUsage, fmt::format("the plan has {} tasks, expected at most {}", tasks, kMostTasks))
        .hint("raise --reduce-bucket-size, --allgather-bucket-size or --sub-group-size");
  }
  return plan;
}

}  // namespace zeroplan::planner
