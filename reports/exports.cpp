#include "reports/exports.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::reports {
namespace {

using planner::Framework;
using planner::Offload;
using planner::OffloadPlace;
using planner::OptimizerKind;
using planner::Precision;
using planner::Recompute;
using planner::Strategy;

/// Defaults of `train`, stated so that the file says what it trains with.
constexpr double kLearningRate = 3e-4;
constexpr double kWeightDecay = 0.01;
constexpr double kGradientClipping = 1.0;
constexpr std::string_view kDiskFolder = "/local_nvme";

/// Lines that start with #.
std::string comment_block(const ExportSource& source) {
  std::string text = fmt::format("# {} on {} x {}, chosen by zeroplan\n", source.model.name, source.training.gpus,
                                 source.machine.name);
  for (const std::string& line : source.predictions) text += "# " + line + "\n";
  for (const std::string& line : export_notes(source)) text += "# note: " + line + "\n";
  return text;
}

std::uint64_t global_batch(const ExportSource& source) {
  return source.strategy.micro_batch * source.strategy.accumulation * source.training.gpus;
}

/// The type and parameters of DeepSpeed's section `optimizer`; null where it has none of this kind.
Json deepspeed_optimizer(OptimizerKind kind) {
  Json params = {{"lr", kLearningRate}, {"weight_decay", kWeightDecay}};
  const auto adam = [&] {
    params["betas"] = {0.9, 0.999};
    params["eps"] = 1e-8;
  };
  switch (kind) {
    case OptimizerKind::kAdamW:
      adam();
      return {{"type", "AdamW"}, {"params", params}};
    case OptimizerKind::kAdam:
      adam();
      params["adam_w_mode"] = false;
      return {{"type", "Adam"}, {"params", params}};
    case OptimizerKind::kLamb:
      return {{"type", "Lamb"}, {"params", params}};
    case OptimizerKind::kLion:
      return {{"type", "Lion"}, {"params", params}};
    case OptimizerKind::kAdagrad:
      return {{"type", "Adagrad"}, {"params", params}};
    case OptimizerKind::kSgd:
      params["momentum"] = 0.9;
      return {{"type", "SGD"}, {"params", params}};
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdamW8bit:
      return nullptr;
  }
  return nullptr;
}

/// DeepSpeed asserts on a type that is not on its list unless told otherwise.
bool is_untested(OptimizerKind kind) {
  return kind == OptimizerKind::kSgd || kind == OptimizerKind::kLamb || kind == OptimizerKind::kAdafactor ||
         kind == OptimizerKind::kAdamW8bit;
}

/// DeepSpeed keeps everything in bf16 from stage 1 on only.
void add_precision(Json& config, Precision precision, std::uint64_t stage) {
  switch (precision) {
    case Precision::kFp32:
      break;
    case Precision::kAmp:
      config["torch_autocast"] = {{"enabled", true}, {"dtype", "bfloat16"}};
      break;
    case Precision::kBf16:
      config["bf16"] = {{"enabled", true}};
      if (stage == 0) break;
      config["bf16"]["bf16_master_weights_and_grads"] = true;
      config["bf16"]["bf16_optimizer_states"] = true;
      break;
    case Precision::kBf16Mixed:
      config["bf16"] = {{"enabled", true}};
      break;
    case Precision::kFp16Mixed:
      config["fp16"] = {{"enabled", true}, {"loss_scale", 0}, {"initial_scale_power", 16}};
      break;
  }
}

Json offload_section(const Offload& offload) {
  Json section = {{"device", planner::name_of(offload.place)}, {"pin_memory", true}};
  if (offload.place == OffloadPlace::kNvme) section["nvme_path"] = kDiskFolder;
  return section;
}

/// Stage 1 and 2 want an even bucket.
std::uint64_t even(std::uint64_t elements) {
  return std::max<std::uint64_t>(2, elements - elements % 2);
}

Json zero_section(const Strategy& s) {
  Json zero = {{"stage", s.stage}};
  if (s.stage == 0) return zero;
  zero["contiguous_gradients"] = true;
  zero["overlap_comm"] = true;
  zero["reduce_scatter"] = true;
  zero["reduce_bucket_size"] = s.reduce_bucket_size;
  zero["allgather_bucket_size"] = even(s.allgather_bucket_size);
  if (s.offload_optimizer.any()) {
    zero["offload_optimizer"] = offload_section(s.offload_optimizer);
    if (s.offload_optimizer.fraction < 1) zero["offload_optimizer"]["ratio"] = s.offload_optimizer.fraction;
  }
  if (s.stage < 3) return zero;
  if (s.offload_param.any()) zero["offload_param"] = offload_section(s.offload_param);
  zero["stage3_prefetch_bucket_size"] = s.prefetch_bucket_size;
  zero["stage3_param_persistence_threshold"] = s.param_persistence_threshold;
  zero["stage3_max_live_parameters"] = s.max_live_parameters;
  zero["stage3_max_reuse_distance"] = s.max_reuse_distance;
  zero["sub_group_size"] = s.sub_group_size;
  zero["stage3_gather_16bit_weights_on_model_save"] = true;
  return zero;
}

std::string_view accelerate_precision(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "'no'";
    case Precision::kFp16Mixed:
      return "fp16";
    default:
      return "bf16";
  }
}

std::string accelerate_head(const ExportSource& source, std::string_view type) {
  return comment_block(source) +
         fmt::format("compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: {}\n", type);
}

/// \param with_precision  false where a DeepSpeed file says it: Accelerate refuses both
std::string accelerate_tail(const ExportSource& source, bool with_precision) {
  std::string text = "downcast_bf16: 'no'\nmachine_rank: 0\nmain_training_function: main\n";
  if (with_precision) text += fmt::format("mixed_precision: {}\n", accelerate_precision(source.training.precision));
  text += fmt::format("num_machines: {}\nnum_processes: {}\n", source.training.nodes, source.training.gpus);
  text += "rdzv_backend: static\nsame_network: true\nuse_cpu: false\n";
  return text;
}

std::string accelerate_deepspeed(const ExportSource& source) {
  const Strategy& s = source.strategy;
  std::string text = accelerate_head(source, "DEEPSPEED") + "deepspeed_config:\n";
  if (source.deepspeed_file) {
    text += fmt::format("  deepspeed_config_file: {}\n", Json(*source.deepspeed_file).dump());
    text += fmt::format("  zero3_init_flag: {}\n", s.stage == 3);
    return text + accelerate_tail(source, false);
  }
  text += fmt::format("  gradient_accumulation_steps: {}\n", s.accumulation);
  text += fmt::format("  gradient_clipping: {:.1f}\n", kGradientClipping);
  text += fmt::format("  offload_optimizer_device: {}\n", planner::name_of(s.offload_optimizer.place));
  if (s.offload_optimizer.place == OffloadPlace::kNvme)
    text += fmt::format("  offload_optimizer_nvme_path: {}\n", kDiskFolder);
  text += fmt::format("  offload_param_device: {}\n", planner::name_of(s.offload_param.place));
  if (s.offload_param.place == OffloadPlace::kNvme) text += fmt::format("  offload_param_nvme_path: {}\n", kDiskFolder);
  text += fmt::format("  zero3_init_flag: {}\n  zero3_save_16bit_model: {}\n  zero_stage: {}\n", s.stage == 3,
                      s.stage == 3, s.stage);
  return text + accelerate_tail(source, true);
}

std::string accelerate_fsdp(const ExportSource& source) {
  const Strategy& s = source.strategy;
  std::string text = accelerate_head(source, "FSDP");
  text += fmt::format("fsdp_config:\n  fsdp_activation_checkpointing: {}\n", s.recompute == Recompute::kFull);
  text += "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_cpu_ram_efficient_loading: true\n";
  text += fmt::format("  fsdp_offload_params: {}\n", s.offload_param.any());
  text += fmt::format("  fsdp_reshard_after_forward: {}\n", s.stage == 3 && source.training.reshard);
  text += "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_version: 2\n";
  return text + accelerate_tail(source, true);
}

std::string_view torch_dtype(bool is_32bit, Precision precision) {
  if (is_32bit) return "float32";
  return precision == Precision::kFp16Mixed ? "float16" : "bfloat16";
}

}  // namespace

std::string_view to_string(ExportKind kind) {
  switch (kind) {
    case ExportKind::kDeepspeed:
      return "deepspeed";
    case ExportKind::kAccelerate:
      return "accelerate";
    case ExportKind::kFsdp:
      return "fsdp";
  }
  return "";
}

ExportKind parse_export_kind(std::string_view name) {
  for (const ExportKind kind : {ExportKind::kDeepspeed, ExportKind::kAccelerate, ExportKind::kFsdp}) {
    if (to_string(kind) == name) return kind;
  }
  throw Error(ErrorCode::kUsage, fmt::format("--export {}: expected deepspeed, accelerate or fsdp", name))
      .at({.key = "--export", .value = std::string(name)})
      .hint("for example --export deepspeed=ds_config.json");
}

std::vector<std::string> export_notes(const ExportSource& source) {
  std::vector<std::string> notes;
  const Strategy& s = source.strategy;
  const std::uint64_t layers = source.model.decoder ? source.model.decoder->layers : 0;
  if (s.recompute == Recompute::kFull) {
    const bool all = s.recompute_blocks == 0 || layers == 0 || s.recompute_blocks >= layers;
    notes.push_back(
        all ? std::string("turn activation checkpointing on for every block (gradient_checkpointing in the Trainer)")
            : fmt::format(
                  "the plan recomputes {} of {} blocks; a switch for all of them saves more memory and is slower",
                  s.recompute_blocks, layers));
  } else if (s.recompute == Recompute::kSelective) {
    notes.emplace_back("the plan recomputes the attention core only; fused attention kernels do that by themselves");
  }
  if (s.head_chunks > 1) {
    notes.push_back(fmt::format(
        "the plan computes head and loss in {} pieces; without a chunked loss the logits of a pass take {}",
        s.head_chunks,
        source.model.decoder
            ? format_size(Elements(s.micro_batch * source.training.seq) * source.model.decoder->vocab * DType::kFp32)
            : std::string("more")));
  }
  if (deepspeed_optimizer(source.training.optimizer).is_null()) {
    notes.push_back(fmt::format("DeepSpeed's file has no optimizer {}: the script passes it",
                                planner::name_of(source.training.optimizer)));
  }
  if (source.training.precision == Precision::kBf16 && s.stage == 0) {
    notes.emplace_back("DeepSpeed keeps fp32 master weights and moments at stage 0, the plan keeps them in bf16");
  }
  if (s.offload_optimizer.place == OffloadPlace::kNvme || s.offload_param.place == OffloadPlace::kNvme) {
    notes.push_back(fmt::format("{} stands for the folder of the local disk", kDiskFolder));
  }
  return notes;
}

std::string deepspeed_config_text(const ExportSource& source) {
  const Strategy& s = source.strategy;
  Json about = {{"model", source.model.name},     {"gpus", source.training.gpus},      {"nodes", source.training.nodes},
                {"machine", source.machine.name}, {"predictions", source.predictions}, {"notes", export_notes(source)}};
  Json config = {{"zeroplan", std::move(about)},
                 {"train_batch_size", global_batch(source)},
                 {"train_micro_batch_size_per_gpu", s.micro_batch},
                 {"gradient_accumulation_steps", s.accumulation},
                 {"gradient_clipping", kGradientClipping}};
  add_precision(config, source.training.precision, s.stage);
  config["zero_optimization"] = zero_section(s);
  const Json optimizer = deepspeed_optimizer(source.training.optimizer);
  if (!optimizer.is_null()) config["optimizer"] = optimizer;
  if (s.stage > 0 && is_untested(source.training.optimizer)) config["zero_allow_untested_optimizer"] = true;
  return config.dump(2) + "\n";
}

std::string accelerate_config_text(const ExportSource& source) {
  return source.training.framework == Framework::kFsdp2 ? accelerate_fsdp(source) : accelerate_deepspeed(source);
}

std::string fsdp_settings_text(const ExportSource& source) {
  const Strategy& s = source.strategy;
  const planner::TrainingSpec& t = source.training;
  const bool shards = s.stage > 0;
  const bool reshards = s.stage == 3 && t.reshard;
  const std::string_view param = torch_dtype(t.precision == Precision::kFp32, t.precision);
  const std::string_view reduce = torch_dtype(t.reduce_dtype == planner::ReduceType::kFp32, t.precision);
  std::string text = comment_block(source);
  if (!shards) text += "# note: stage 0 replicates everything: use DDP, or a shard degree of 1\n";
  text += "fully_shard:  # torch.distributed.fsdp.fully_shard, each block and the root\n";
  text += fmt::format("  reshard_after_forward: {}\n", reshards);
  text += fmt::format("  mp_policy:\n    param_dtype: {}\n    reduce_dtype: {}\n", param, reduce);
  text += fmt::format("  offload_policy: {}\n", s.offload_param.any() ? "CPUOffloadPolicy" : "null");
  text += "torchtitan:  # the same in sections and keys of its TOML file\n";
  text += fmt::format("  training:\n    local_batch_size: {}\n    global_batch_size: {}\n    seq_len: {}\n",
                      s.micro_batch, global_batch(source), t.seq);
  text += fmt::format("    mixed_precision_param: {}\n    mixed_precision_reduce: {}\n", param, reduce);
  text += fmt::format("    enable_cpu_offload: {}\n", s.offload_param.any());
  text += fmt::format("  parallelism:\n    data_parallel_replicate_degree: {}\n    data_parallel_shard_degree: {}\n",
                      shards ? 1 : t.gpus, shards ? t.gpus : 1);
  text += fmt::format("    fsdp_reshard_after_forward: {}\n", reshards ? "always" : "never");
  text += fmt::format("  activation_checkpoint:\n    mode: {}\n", s.recompute == Recompute::kFull ? "full" : "none");
  return text;
}

std::string export_text(ExportKind kind, const ExportSource& source) {
  switch (kind) {
    case ExportKind::kDeepspeed:
      return deepspeed_config_text(source);
    case ExportKind::kAccelerate:
      return accelerate_config_text(source);
    case ExportKind::kFsdp:
      return fsdp_settings_text(source);
  }
  return "";
}

}  // namespace zeroplan::reports
