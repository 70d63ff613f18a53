#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

using enum ValueType;

constexpr KeySpec kZero[] = {
    KeySpec{"stage", kInteger, "0"}.from(0).to(3),
    {"contiguous_gradients", kBool, "true"},
    {"reduce_scatter", kBool, "true"},
    KeySpec{"reduce_bucket_size", kInteger, "500000000"}.from(1),
    {"use_multi_rank_bucket_allreduce", kBool, "true"},
    {"allgather_partitions", kBool, "true"},
    KeySpec{"allgather_bucket_size", kInteger, "500000000"}.from(0),
    KeySpec{"overlap_comm", kBool}.or_null(),
    {"load_from_fp32_weights", kBool, "true"},
    {"elastic_checkpoint", kBool, "false"},
    {"ignore_unused_parameters", kBool, "true"},
    {"round_robin_gradients", kBool, "false"},
    {"legacy_stage1", kBool, "false"},
    KeySpec{"offload_optimizer", kObject}.or_null(),
    KeySpec{"offload_param", kObject}.or_null(),
    KeySpec{"zenflow", kObject}.or_null(),
    {"leaf_module", kObject},
    {"pipeline_loading_checkpoint", kBool, "false"},
    {"override_module_apply", kBool, "true"},
    KeySpec{"prefetch_bucket_size", kInteger, "50000000"}.from(0).also("stage3_prefetch_bucket_size"),
    KeySpec{"param_persistence_threshold", kInteger, "100000"}.from(0).also("stage3_param_persistence_threshold"),
    KeySpec{"model_persistence_threshold", kInteger, "9223372036854775807"}.from(0).also(
        "stage3_model_persistence_threshold"),
    KeySpec{"max_live_parameters", kInteger, "1000000000"}.from(0).also("stage3_max_live_parameters"),
    KeySpec{"max_reuse_distance", kInteger, "1000000000"}.from(0).also("stage3_max_reuse_distance"),
    KeySpec{"gather_16bit_weights_on_model_save", kBool, "false"}.also("stage3_gather_16bit_weights_on_model_save"),
    KeySpec{"module_granularity_threshold", kInteger, "0"}.also("stage3_module_granularity_threshold"),
    KeySpec{"use_all_reduce_for_fetch_params", kBool, "false"}.also("stage3_use_all_reduce_for_fetch_params"),
    KeySpec{"allgather_sequential", kBool, "false"}.also("stage3_allgather_sequential"),
    KeySpec{"sub_group_size", kInteger, "1000000000"}.from(0),
    {"memory_efficient_linear", kBool, "true"},
    KeySpec{"zero_hpz_partition_size", kInteger, "1"}.from(0),
    {"zero_quantized_weights", kBool, "false"},
    {"zero_quantized_nontrainable_weights", kBool, "false"},
    {"zero_quantized_gradients", kBool, "false"},
    KeySpec{"zeropp_loco_param", kObject}.or_null(),
    {"mics_shard_size", kInteger, "-1"},
    {"mics_hierarchical_params_gather", kBool, "false"},
    {"log_trace_cache_warnings", kBool, "false"},
    {"enable_sanity_checks", kBool, "false"},
    {"save_muon_momentum_buffer_in_memory", kBool, "false"},
    KeySpec{"cpu_offload", kBool}.or_null().old("offload_optimizer: {\"device\": \"cpu\"}"),
    KeySpec{"cpu_offload_param", kBool}.or_null().old("offload_param: {\"device\": \"cpu\"}"),
    KeySpec{"cpu_offload_params", kBool}.old("offload_param: {\"device\": \"cpu\"}").gone(),
    KeySpec{"cpu_offload_use_pin_memory", kBool}
        .or_null()
        .old("pin_memory in offload_optimizer and offload_param")
        .unread(),
    KeySpec{"stage3_gather_fp16_weights_on_model_save", kBool, "false"}.old(
        "stage3_gather_16bit_weights_on_model_save"),
    KeySpec{"gather_fp16_weights_on_model_save", kBool}.old("stage3_gather_16bit_weights_on_model_save").gone(),
};

constexpr KeySpec kOffloadParam[] = {
    KeySpec{"device", kChoice, "\"none\""}.one_of("none|cpu|nvme"),
    KeySpec{"nvme_path", kText}.or_null(),
    KeySpec{"buffer_count", kInteger, "5"}.from(0),
    KeySpec{"buffer_size", kInteger, "100000000"}.from(0),
    KeySpec{"max_in_cpu", kInteger, "1000000000"}.from(0),
    {"pin_memory", kBool, "true"},
};

constexpr KeySpec kOffloadOptimizer[] = {
    KeySpec{"device", kChoice, "\"none\""}.one_of("none|cpu|nvme"),
    KeySpec{"nvme_path", kText}.or_null(),
    KeySpec{"buffer_count", kInteger, "4"}.from(0),
    {"pin_memory", kBool, "true"},
    {"pipeline_read", kBool, "false"},
    {"pipeline_write", kBool, "false"},
    {"fast_init", kBool, "false"},
    KeySpec{"ratio", kNumber, "1.0"}.from(0).to(1),
    {"super_offload", kBool, "false"},
    KeySpec{"cpuadam_cores_perc", kNumber, "0.8"}.from(0).to(1),
};

constexpr KeySpec kLeafModule[] = {{"classes", kAny}, {"names", kAny}, {"name_suffixes", kAny}};

constexpr KeySpec kZenflow[] = {
    {"topk_ratio", kNumber, "0.1"},
    KeySpec{"select_strategy", kChoice, "\"auto\""}.one_of("auto|step|epoch").or_auto(),
    KeySpec{"select_interval", kAny, "\"auto\""}.or_auto(),
    KeySpec{"update_interval", kAny, "\"auto\""}.or_auto(),
    {"overlap_step", kBool, "false"},
    {"offload", kBool, "false"},
    KeySpec{"auto_ratio", kNumber, "0.99"}.from(0).to(1),
    {"full_warm_up_rounds", kInteger, "0"},
    KeySpec{"pt_reserved_cores_perc", kNumber, "0.5"}.from(0).to(1),
    KeySpec{"steps_per_epoch", kInteger}.or_null(),
};

}  // namespace

std::vector<SectionSpec> zero_sections() {
  return {{"zero_optimization", Reading::kStrict, kZero},
          {"zero_optimization.offload_param", Reading::kStrict, kOffloadParam},
          {"zero_optimization.offload_optimizer", Reading::kStrict, kOffloadOptimizer},
          {"zero_optimization.leaf_module", Reading::kStrict, kLeafModule},
          {"zero_optimization.zenflow", Reading::kStrict, kZenflow}};
}

}  // namespace zeroplan::planner::deepspeed
