#include "planner/deepspeed/rules/error_patterns.h"

namespace zeroplan::planner::deepspeed {
namespace {

struct KnownMessage {
  std::string_view words;
  std::string_view key;
  std::string_view cause;
  std::string_view fix;
};

constexpr KnownMessage kMessages[] = {
    {"fractional part", "zero_optimization.stage3_prefetch_bucket_size",
     "a size is a fraction (0.9 x hidden_size^2), DeepSpeed takes integers only",
     "write the number without its fraction"},
    {"neither `hidden_size` nor", "zero_optimization.reduce_bucket_size",
     "auto bucket sizes need a hidden_size that the model's config does not have",
     "write whole numbers for reduce_bucket_size, stage3_prefetch_bucket_size and stage3_param_persistence_threshold"},
    {"check batch related parameters", "train_batch_size", "train_batch_size is not micro batch x accumulation x ranks",
     "write auto, or the product; check that all ranks joined"},
    {"mismatch trainingarguments", "args", "values of the file differ from the trainer's arguments",
     "write auto for them"},
    {"untested zero optimizer", "zero_allow_untested_optimizer", "the optimizer is not on ZeRO's list",
     "set zero_allow_untested_optimizer to true"},
    {"zero_force_ds_cpu_optimizer", "zero_optimization.offload_optimizer", "CPU offload needs DeepSpeedCPUAdam",
     "use an optimizer section, or set zero_force_ds_cpu_optimizer to false"},
    {"'weight' must be 2-d", "zero_optimization.stage", "a stage-3 weight was read outside a gather: it has shape [0]",
     "wrap the access in GatheredParameters, or put the model into the engine"},
    {"size mismatch", "zero_optimization.stage3_gather_16bit_weights_on_model_save",
     "the checkpoint has empty stage-3 tensors, or another shape",
     "save with stage3_gather_16bit_weights_on_model_save, or use zero_to_fp32.py"},
    {"unable to jit load the async_io", "aio", "libaio and its headers are missing",
     "install the development package of libaio"},
    {"ran out of swap buffers", "zero_optimization.offload_optimizer.buffer_count",
     "fewer buffers than tensors of one update",
     "raise buffer_count (Adam 4, with a pipelined read 8, read and write 12)"},
    {"not enough buffers", "zero_optimization.offload_param.buffer_count", "fewer buffers than weights of one fetch",
     "raise buffer_count"},
    {"than buffer size", "zero_optimization.offload_param.buffer_size", "a shard is larger than a buffer",
     "raise buffer_size to the largest shard"},
    {"automatic adjustment of zero", "checkpoint.load_universal",
     "optimizer shards of another rank count cannot be loaded",
     "convert to a universal checkpoint, or load weights only"},
    {"warmup_num_steps must be", "scheduler.params.warmup_num_steps", "DeepSpeed takes positive integers only",
     "write 2 or more, or leave the key out"},
    {"cannot be simultaneously enabled", "fp16.enabled", "fp16 and bf16 are both on", "turn one of them off"},
    {"watchdog caught collective operation timeout", "env",
     "a rank did not reach a collective: it died, or took another branch",
     "look for the first failing rank; save on all ranks, generate with synced_gpus"},
    {"exitcode: -7", "memory", "signal 7 (bus error): shared memory is full",
     "enlarge /dev/shm, or use fewer loader workers"},
    {"bus error", "memory", "bus error: shared memory is full", "enlarge /dev/shm, or use fewer loader workers"},
    {"exitcode: -11", "env", "signal 11: a crash in native code",
     "check that driver, CUDA and extension builds fit together"},
    {"duplicate keys in deepspeed config", "json", "a key stands twice", "keep one of them"},
    {"hostfile contains a bad entry", "env", "a hostfile line is not `host slots=N`", "correct the line"},
};

}  // namespace

void report_known_messages(Findings& findings, const std::string& log) {
  for (const KnownMessage& message : kMessages) {
    if (log.find(message.words) != std::string::npos) {
      findings.error(std::string(message.key), std::string(message.cause), std::string(message.fix));
    }
  }
}

}  // namespace zeroplan::planner::deepspeed
