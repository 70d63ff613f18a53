#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

using enum ValueType;

constexpr KeySpec kDocument[] = {
    {"train_batch_size", kInteger},
    {"train_micro_batch_size_per_gpu", kInteger},
    {"gradient_accumulation_steps", kInteger},
    {"managed_gradient_accumulation", kBool, "true"},
    {"gradient_clipping", kNumber, "1.0"},
    KeySpec{"communication_data_type", kChoice}.one_of("fp16|bf16|fp32").in_any_case().or_null(),
    KeySpec{"seq_parallel_communication_data_type", kChoice, "\"fp32\""}
        .one_of("fp16|bf16|fp32")
        .in_any_case()
        .or_null(),
    {"prescale_gradients", kBool, "false"},
    {"gradient_predivide_factor", kNumber, "1.0"},
    KeySpec{"gradient_allreduce_op", kChoice, "\"mean\""}.one_of("mean|sum").in_any_case(),
    {"sparse_gradients", kBool, "false"},
    {"disable_allgather", kBool, "false"},
    {"dump_state", kBool, "false"},
    {"memory_breakdown", kBool, "false"},
    {"wall_clock_breakdown", kBool, "false"},
    KeySpec{"steps_per_print", kNumber}.or_null(),
    {"dataloader_drop_last", kBool, "false"},
    {"zero_allow_untested_optimizer", kBool, "false"},
    {"zero_force_ds_cpu_optimizer", kBool, "true"},
    KeySpec{"sequence_parallel_size", kInteger, "1"}.from(1),
    {"log_level", kText, "\"info\""},
    {"graph_harvesting", kBool, "false"},
    KeySpec{"vocabulary_size", kInteger}.or_null(),
    {"use_data_before_expert_parallelism", kBool, "false"},
    {"allgather_size", kInteger, "500000000"},
    KeySpec{"fp32_allreduce", kBool}.old("communication_data_type: \"fp32\"").unread(),
    {"optimizer", kObject},
    {"scheduler", kObject},
    {"fp16", kObject},
    KeySpec{"bf16", kObject}.or_null(),
    KeySpec{"bfloat16", kObject}.old("bf16"),
    {"amp", kObject},
    {"torch_autocast", kObject},
    {"data_types", kObject},
    {"zero_optimization", kObject},
    KeySpec{"activation_checkpointing", kObject}.or_null(),
    KeySpec{"aio", kObject}.or_null(),
    KeySpec{"checkpoint", kObject}.or_null(),
    {"flops_profiler", kObject},
    {"comms_logger", kObject},
    {"tensorboard", kObject},
    {"wandb", kObject},
    {"csv_monitor", kObject},
    {"comet", kObject},
    {"elasticity", kObject},
    {"autotuning", kObject},
    {"pipeline", kObject},
    {"tensor_parallel", kObject},
    {"hybrid_engine", kObject},
    {"timers", kObject},
    {"compile", kObject},
    {"weight_quantization", kObject},
    {"compression_training", kObject},
    {"data_efficiency", kObject},
    {"curriculum_learning", kObject},
    {"progressive_layer_drop", kObject},
    {"eigenvalue", kObject},
    {"quantize_training", kObject},
    {"sparse_attention", kObject},
    {"nebula", kObject},
    {"datastates_ckpt", kObject},
    {"expert_parallel", kObject},
    {"inference", kObject},
    {"msamp", kObject},
};

constexpr KeySpec kOptimizer[] = {
    {"type", kText},
    {"params", kObject},
    {"legacy_fusion", kBool, "false"},
};

constexpr KeySpec kScheduler[] = {{"type", kText}, {"params", kObject}};

constexpr KeySpec kDataTypes[] = {
    KeySpec{"grad_accum_dtype", kChoice}.one_of("fp32|fp16|bf16").or_null(),
    KeySpec{"param_dtype", kChoice}.one_of("fp32|fp16|bf16").or_null(),
    KeySpec{"buffer_dtype", kChoice}.one_of("fp32|fp16|bf16").or_null(),
};

}  // namespace

std::vector<SectionSpec> document_sections() {
  return {{"", Reading::kPlain, kDocument},
          {"optimizer", Reading::kPlain, kOptimizer},
          {"scheduler", Reading::kPlain, kScheduler},
          {"data_types", Reading::kPlain, kDataTypes}};
}

}  // namespace zeroplan::planner::deepspeed
