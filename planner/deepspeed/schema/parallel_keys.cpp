#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

using enum ValueType;

constexpr KeySpec kElasticity[] = {
    {"enabled", kBool, "false"},
    KeySpec{"max_train_batch_size", kInteger}.from(1),
    {"micro_batch_sizes", kList},
    KeySpec{"min_gpus", kInteger, "1"}.from(1),
    KeySpec{"max_gpus", kInteger, "10000"}.from(1),
    KeySpec{"min_time", kInteger, "0"}.from(0),
    {"prefer_larger_batch", kBool, "true"},
    {"ignore_non_elastic_batch_info", kBool, "false"},
    {"version", kNumber, "0.2"},
    KeySpec{"model_parallel_size", kInteger, "1"}.from(1),
    KeySpec{"num_gpus_per_node", kInteger, "1"}.from(1),
};

constexpr KeySpec kPipeline[] = {
    KeySpec{"stages", kAny, "\"auto\""}.or_auto(),
    {"partition", kText, "\"best\""},
    {"seed_layers", kBool, "false"},
    {"activation_checkpoint_interval", kInteger, "0"},
    {"pipe_partitioned", kBool, "true"},
    {"grad_partitioned", kBool, "true"},
    {"use_reentrant", kBool, "true"},
};

constexpr KeySpec kTensorParallel[] = {
    {"dtype", kAny},
    KeySpec{"autotp_size", kInteger, "0"}.from(0),
    {"tp_overlap_comm", kBool, "false"},
    KeySpec{"tensor_parallel", kObject}.also("tp"),
    {"injection_policy_tuple", kAny},
    KeySpec{"partition_config", kObject}.or_null(),
    KeySpec{"preset_model", kText}.or_null(),
    {"keep_module_on_host", kBool, "false"},
    KeySpec{"replace_with_kernel_inject", kBool, "false"}.also("kernel_inject"),
};

constexpr KeySpec kHybridEngine[] = {
    {"enabled", kBool, "false"},           {"max_out_tokens", kInteger, "512"},
    {"inference_tp_size", kInteger, "1"},  {"release_inference_cache", kBool, "false"},
    {"pin_parameters", kBool, "true"},     {"tp_gather_partition_size", kInteger, "8"},
    {"enable_cuda_graph", kBool, "false"},
};

constexpr KeySpec kCompile[] = {
    {"deepcompile", kBool, "false"},
    {"free_activation", kBool, "false"},
    {"free_activation_threshold", kInteger, "10485760"},
    {"offload_activation", kBool, "false"},
    {"offload_activation_pin_memory", kBool, "true"},
    {"offload_opt_states", kBool, "false"},
    {"double_buffer", kBool, "true"},
    {"symmetric_memory", kBool, "false"},
    {"debug_log", kBool, "false"},
    {"offload_parameters", kBool, "false"},
    {"sync_before_reduce", kBool, "false"},
    {"sync_after_reduce", kBool, "false"},
    {"sync_before_allgather", kBool, "false"},
    {"sync_after_allgather", kBool, "false"},
    {"keep_int_input_tensors", kBool, "true"},
    {"keep_all_input_tensors", kBool, "false"},
    KeySpec{"passes", kList}.or_null(),
};

constexpr KeySpec kAutotuning[] = {
    {"enabled", kBool, "false"},
    {"fast", kBool, "true"},
    KeySpec{"metric", kChoice, "\"throughput\""}.one_of("throughput|latency|flops"),
    {"start_profile_step", kInteger, "3"},
    {"end_profile_step", kInteger, "5"},
    KeySpec{"tuner_type", kChoice, "\"gridsearch\""}.one_of("gridsearch|random|model_based"),
    {"tuner_num_trials", kInteger, "50"},
    {"tuner_early_stopping", kInteger, "5"},
    KeySpec{"max_train_batch_size", kInteger}.or_null(),
    {"min_train_batch_size", kInteger, "1"},
    {"max_train_micro_batch_size_per_gpu", kInteger, "1024"},
    {"min_train_micro_batch_size_per_gpu", kInteger, "1"},
    {"num_tuning_micro_batch_sizes", kInteger, "3"},
    {"mp_size", kInteger, "1"},
    {"results_dir", kText},
    {"exps_dir", kText},
    {"overwrite", kBool, "true"},
    KeySpec{"arg_mappings", kObject}.or_null(),
    KeySpec{"model_info", kObject}.or_null(),
    {"model_info_path", kText},
};

}  // namespace

std::vector<SectionSpec> parallel_sections() {
  return {{"elasticity", Reading::kPlain, kElasticity},
          {"pipeline", Reading::kPlain, kPipeline},
          {"tensor_parallel", Reading::kStrict, kTensorParallel},
          {"hybrid_engine", Reading::kStrict, kHybridEngine},
          {"compile", Reading::kStrict, kCompile},
          {"autotuning", Reading::kPlain, kAutotuning}};
}

}  // namespace zeroplan::planner::deepspeed
