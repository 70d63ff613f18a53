#include "planner/deepspeed/rules/error_patterns.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "models/core/text.h"

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
    {"not supported between instances of 'str' and 'int'", "zero_optimization",
     "a size is text: `auto` is filled by the trainer or Accelerate only, DeepSpeed alone compares it with numbers",
     "write numbers where nobody fills auto; `check --filled` writes them"},
    {"not supported between instances of 'int' and 'str'", "zero_optimization",
     "a size is text: `auto` is filled by the trainer or Accelerate only, DeepSpeed alone compares it with numbers",
     "write numbers where nobody fills auto; `check --filled` writes them"},
    {"os.pathlike object, not nonetype", "zero_optimization.offload_param.nvme_path", "offload to nvme without a path",
     "set nvme_path to a folder on a local disk"},
    {"no file named pytorch_model.bin", "zero_optimization.stage3_gather_16bit_weights_on_model_save",
     "the folder has no weights: at stage 3 a save without gathering writes shards only",
     "set stage3_gather_16bit_weights_on_model_save to true, or convert the shards with zero_to_fp32.py"},
    {"cannot allocate memory", "memory", "the system refused memory: host RAM or the limit of pinned (locked) memory",
     "raise `ulimit -l` and the container's memory, or set pin_memory to false"},
    {"cudahostalloc", "memory", "page-locked host memory could not be had",
     "set pin_memory to false, or raise `ulimit -l`"},
    {"invalid device ordinal", "env", "a rank asks for a GPU that its node does not show",
     "start as many ranks per node as CUDA_VISIBLE_DEVICES lists"},
    {"address already in use", "env", "the port of the rendezvous is taken, often by an earlier run that still lives",
     "end the earlier run, or choose another --master_port"},
    {"unrecognized arguments: --local_rank", "args", "the launcher adds --local_rank and the script does not take it",
     "add the argument, or read the variable LOCAL_RANK and launch with --no_local_rank"},
    {"unrecognized arguments: --local-rank", "args", "the launcher adds --local-rank and the script does not take it",
     "add the argument, or read the variable LOCAL_RANK"},
    {"no module named 'mpi4py'", "env",
     "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT or LOCAL_RANK is missing, so that DeepSpeed tries MPI",
     "start with a launcher, or set the five variables"},
    {"unhandled system error", "env", "NCCL could not use a socket or shared memory",
     "set NCCL_DEBUG=INFO; name the network interface in NCCL_SOCKET_IFNAME; enlarge /dev/shm in containers"},
    {"expected all tensors to be on the same device", "zero_optimization.offload_param",
     "a tensor stayed on the host while the rest is on the GPU",
     "move inputs and buffers to the engine's device; call the engine, not the module inside"},
    {"no attribute 'ds_opt_adam'", "zero_optimization.offload_optimizer",
     "DeepSpeedCPUAdam could not be built or loaded",
     "make a compiler and the CUDA toolkit of PyTorch's version available, or set DS_BUILD_CPU_ADAM=1 at installation"},
    {"does not match the version torch was compiled with", "env",
     "the CUDA toolkit is of another version than PyTorch's",
     "install the matching toolkit, or set DS_SKIP_CUDA_CHECK=1 where only the minor version differs"},
    {"torch.size([0])", "zero_optimization.stage",
     "a stage-3 weight was read or saved outside a gather: it has shape [0]",
     "wrap the access in GatheredParameters, or put the model into the engine"},
    {"client optimizer", "zero_optimization.offload_optimizer",
     "the optimizer that the script made does not go with offload",
     "use an optimizer section, DeepSpeedCPUAdam, or set zero_force_ds_cpu_optimizer to false"},
};

/// Where the keys of a configuration class of DeepSpeed stand in the file.
std::string_view section_of_class(const std::string& line) {
  if (line.find("deepspeedzeroconfig") != std::string::npos) return "zero_optimization.";
  if (line.find("offloadoptimizer") != std::string::npos) return "zero_optimization.offload_optimizer.";
  if (line.find("offloadparam") != std::string::npos) return "zero_optimization.offload_param.";
  if (line.find("fp16config") != std::string::npos) return "fp16.";
  if (line.find("bf16config") != std::string::npos) return "bf16.";
  return "";
}

/// A name by itself, dotted or not.
bool is_key_line(const std::string& line) {
  return !line.empty() && std::isalpha(static_cast<unsigned char>(line[0])) != 0 && line.size() < 80 &&
         std::all_of(line.begin(), line.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

std::string first_sentence(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  return text.substr(0, text.find(" ["));
}

/// The rejected keys of a pydantic report, which prints a key on a line of its own below its heading:
///     1 validation error for DeepSpeedZeroConfig
///     stage3_prefetch_bucket_size
///       Input should be a valid integer, ...
void report_rejected_keys(Findings& findings, const std::string& log) {
  constexpr std::size_t kMostKeys = 8;
  const std::vector<std::string> lines = split(log, '\n');
  std::string section;
  bool inside = false;
  std::size_t reported = 0;
  for (std::size_t i = 0; i + 1 < lines.size() && reported < kMostKeys; ++i) {
    const std::string& line = lines[i];
    if (line.find("validation error") != std::string::npos) {
      inside = true;
      section = section_of_class(line);
    } else if (inside && is_key_line(line) && lines[i + 1].starts_with("  ")) {
      findings.error(section + line, fmt::format("DeepSpeed rejects {}: {}", line, first_sentence(lines[i + 1])),
                     "run `check` on the file: it names the type that the key takes");
      ++reported;
    }
  }
}

/// Steps that fp16 skipped, one line each.
void report_overflows(Findings& findings, const std::string& log) {
  constexpr std::string_view kLine = "overflow!";
  std::size_t count = 0;
  for (std::size_t at = log.find(kLine); at != std::string::npos; at = log.find(kLine, at + kLine.size())) ++count;
  constexpr std::size_t kExpected = 20;  // 2^16 halves to 1 after 16 overflows; each rank may print its own line
  if (count == 0 || (log.find("loss scale") != std::string::npos && log.find("minimum") != std::string::npos)) return;
  if (count < kExpected) {
    findings.info("fp16",
                  fmt::format("{} overflow{} in the text: dynamic loss scaling finds its scale this way", count,
                              count == 1 ? "" : "s"),
                  "nothing to do while they become rare");
  } else {
    findings.error(
        "fp16", fmt::format("{} overflows in the text: values leave fp16's range in most steps", count),
        "use bf16 instead of fp16 (or fp32); look for data that is not finite and a learning rate too large");
  }
}

}  // namespace

void report_known_messages(Findings& findings, const std::string& log) {
  for (const KnownMessage& message : kMessages) {
    if (log.find(message.words) != std::string::npos) {
      findings.error(std::string(message.key), std::string(message.cause), std::string(message.fix));
    }
  }
  report_rejected_keys(findings, log);
  report_overflows(findings, log);
}

}  // namespace zeroplan::planner::deepspeed
