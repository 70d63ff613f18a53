#include "planner/deepspeed/decisions.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "planner/deepspeed/check.h"
#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/config_text.h"
#include "planner/deepspeed/config_tree.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr const char* kTotal = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kSteps = "gradient_accumulation_steps";

/// Removes every `auto`: what nobody fills, the planner chooses.
Json without_autos(const Json& node) {
  Json left = Json::object();
  for (const auto& [name, value] : node.items()) {
    if (value == "auto") continue;
    left[name] = value.is_object() ? without_autos(value) : value;
  }
  return left;
}

/// Flags replace sizes of the file; where three sizes would then contradict each other, one that only the file has
/// goes.
void apply_flags(ConfigTree& tree, std::uint64_t ranks, const BatchFlags& flags) {
  if (flags.micro_batch) tree.set(kMicro, *flags.micro_batch);
  if (flags.accumulation) tree.set(kSteps, *flags.accumulation);
  // A global batch alone decides neither of the other two: that is left to the planner.
  if (flags.global_batch && (tree.has(kMicro) || tree.has(kSteps))) {
    tree.set(kTotal, *flags.global_batch);
  } else if (flags.global_batch) {
    tree.remove_sub_tree(kTotal);
  }
  if (!flags.micro_batch && !flags.accumulation && !flags.global_batch) return;
  const auto size = [&tree](const char* path) {
    const Json* value = tree.find(path);
    return value == nullptr ? std::nullopt : coerce_integer(*value);
  };
  const auto total = size(kTotal);
  const auto micro = size(kMicro);
  const auto steps = size(kSteps);
  if (!total || !micro || !steps) return;
  const double product = static_cast<double>(*micro) * static_cast<double>(*steps) * static_cast<double>(ranks);
  if (product == static_cast<double>(*total)) return;
  if (!flags.accumulation) return tree.remove_sub_tree(kSteps);
  if (!flags.micro_batch) return tree.remove_sub_tree(kMicro);
  if (!flags.global_batch) tree.remove_sub_tree(kTotal);
}

/// Values of the file as DeepSpeed converts them.
class ConfigValues {
 public:
  explicit ConfigValues(const ConfigTree& tree) : tree_(tree) {}

  std::optional<std::uint64_t> count(std::string_view path) const {
    const Json* value = tree_.find(path);
    const auto number = value == nullptr ? std::nullopt : coerce_integer(*value);
    return number && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
  }
  /// A key of zero_optimization, also under its alias stage3_.
  std::optional<std::uint64_t> zero_count(const std::string& name) const {
    const auto aliased = count("zero_optimization.stage3_" + name);
    return aliased ? aliased : count("zero_optimization." + name);
  }
  bool flag(std::string_view path) const {
    const Json* value = tree_.find(path);
    return value != nullptr && coerce_bool(*value).value_or(false);
  }
  double number(std::string_view path, double fallback) const {
    const Json* value = tree_.find(path);
    return value == nullptr ? fallback : coerce_number(*value).value_or(fallback);
  }
  std::string word(std::string_view path) const {
    const Json* value = tree_.find(path);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  bool has(std::string_view path) const { return tree_.has(path); }
  const Json* find(std::string_view path) const { return tree_.find(path); }

 private:
  const ConfigTree& tree_;
};

OffloadPlace place_of(const std::string& device, bool old_switch) {
  if (device == "cpu" || (device.empty() && old_switch)) return OffloadPlace::kCpu;
  return device == "nvme" ? OffloadPlace::kNvme : OffloadPlace::kNone;
}

/// Stage and offload: what the file does not name is off, as in DeepSpeed, unless it says `auto`.
void take_stage(const ConfigValues& values, const ConfigTree& given, ConfigDecisions& decisions) {
  FixedDecisions& fixed = decisions.fixed;
  const Json* zero = values.find("zero_optimization");
  const bool oldest_form = zero != nullptr && zero->is_boolean();
  if (!given.is_auto("zero_optimization.stage")) {
    fixed.stage = oldest_form ? (zero->get<bool>() ? 1 : 0) : values.count("zero_optimization.stage").value_or(0);
  }
  if (!given.is_auto("zero_optimization.offload_optimizer.device")) {
    const OffloadPlace place = place_of(values.word("zero_optimization.offload_optimizer.device"),
                                        values.flag("zero_optimization.cpu_offload"));
    fixed.offload_optimizer = Offload{place, values.number("zero_optimization.offload_optimizer.ratio", 1)};
  }
  if (!given.is_auto("zero_optimization.offload_param.device")) {
    const OffloadPlace place = place_of(values.word("zero_optimization.offload_param.device"),
                                        values.flag("zero_optimization.cpu_offload_param"));
    const bool acts = !fixed.stage || *fixed.stage == 3;
    fixed.offload_param = Offload{acts ? place : OffloadPlace::kNone, 1};
  }
}

void take_sizes(const ConfigValues& values, FixedDecisions& fixed) {
  fixed.reduce_bucket_size = values.count("zero_optimization.reduce_bucket_size");
  fixed.allgather_bucket_size = values.count("zero_optimization.allgather_bucket_size");
  fixed.prefetch_bucket_size = values.zero_count("prefetch_bucket_size");
  fixed.param_persistence_threshold = values.zero_count("param_persistence_threshold");
  fixed.max_live_parameters = values.zero_count("max_live_parameters");
  fixed.max_reuse_distance = values.zero_count("max_reuse_distance");
  fixed.sub_group_size = values.count("zero_optimization.sub_group_size");
}

void take_precision(const ConfigValues& values, const ConfigTree& given, ConfigDecisions& decisions) {
  const std::string half = values.has("bf16") ? "bf16" : "bfloat16";
  if (values.flag(half + ".enabled")) {
    const bool all_bf16 =
        values.flag(half + ".bf16_master_weights_and_grads") && values.flag(half + ".bf16_optimizer_states");
    decisions.precision = all_bf16 ? Precision::kBf16 : Precision::kBf16Mixed;
  } else if (values.flag("fp16.enabled")) {
    decisions.precision = Precision::kFp16Mixed;
  } else if (!given.is_auto("bf16.enabled") && !given.is_auto("fp16.enabled")) {
    decisions.precision = Precision::kFp32;
  }
  const std::string reduced = lower_case(values.word("communication_data_type"));
  if (reduced == "fp32") decisions.reduce_dtype = ReduceType::kFp32;
  if (reduced == "bf16") decisions.reduce_dtype = ReduceType::kBf16;
  const std::string accumulated = lower_case(values.word("data_types.grad_accum_dtype"));
  if (accumulated == "fp32") decisions.gradient_dtype = GradientType::kFp32;
}

void take_optimizer(const ConfigValues& values, const std::string& file, ConfigDecisions& decisions) {
  const std::string type = values.word("optimizer.type");
  if (type.empty()) return;
  const std::string name = lower_case(type);
  constexpr std::array<std::pair<std::string_view, OptimizerKind>, 6> kKinds = {
      {{"adamw", OptimizerKind::kAdamW},
       {"lion", OptimizerKind::kLion},
       {"adagrad", OptimizerKind::kAdagrad},
       {"lamb", OptimizerKind::kLamb},
       {"sgd", OptimizerKind::kSgd},
       {"adafactor", OptimizerKind::kAdafactor}}};
  if (name == "adam") {
    const bool plain = values.has("optimizer.params.adam_w_mode") && !values.flag("optimizer.params.adam_w_mode");
    decisions.optimizer = plain ? OptimizerKind::kAdam : OptimizerKind::kAdamW;
    return;
  }
  for (const auto& [known, kind] : kKinds) {
    if (name == known) {
      decisions.optimizer = kind;
      return;
    }
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: optimizer {} is not modelled here", file, quoted_text(type)))
      .at({.file = file, .key = "optimizer.type", .value = type})
      .hint("say another one with --optimizer: adamw, adam, sgd, lion, adagrad, lamb, adafactor or adamw-8bit");
}

void refuse_other_parallelism(const ConfigValues& values, const std::string& file) {
  for (const char* path : {"tensor_parallel.autotp_size", "sequence_parallel_size", "pipeline.stages"}) {
    const auto size = values.count(path);
    if (!size || *size <= 1) continue;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: {} is {}, plans here are data parallel only", file, path, *size))
        .at({.file = file, .key = path, .value = fmt::format("{}", *size)})
        .hint("write 1");
  }
}

/// What `train` takes, spelled as its flags.
void note_training(const ConfigValues& values, std::vector<std::string>& notes) {
  std::string flags;
  const auto add = [&flags](std::string_view flag, const std::string& value) {
    flags += fmt::format("{}{} {}", flags.empty() ? "" : " ", flag, value);
  };
  if (values.has("optimizer.params.lr")) add("--lr", shown_number(values.number("optimizer.params.lr", 0)));
  if (values.has("optimizer.params.weight_decay"))
    add("--weight-decay", shown_number(values.number("optimizer.params.weight_decay", 0)));
  if (const Json* betas = values.find("optimizer.params.betas"); betas != nullptr && betas->is_array() &&
                                                                 betas->size() == 2 && (*betas)[0].is_number() &&
                                                                 (*betas)[1].is_number()) {
    add("--beta1", shown_number((*betas)[0].get<double>()));
    add("--beta2", shown_number((*betas)[1].get<double>()));
  }
  for (const char* name : {"eps", "momentum", "min_coeff", "max_coeff"}) {
    const std::string key = fmt::format("optimizer.params.{}", name);
    std::string flag = fmt::format("--{}", name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (values.has(key)) add(flag, shown_number(values.number(key, 0)));
  }
  if (values.flag("optimizer.params.nesterov")) flags += " --nesterov";
  if (values.has("gradient_clipping")) add("--grad-clip", shown_number(values.number("gradient_clipping", 0)));
  const std::string schedule = values.word("scheduler.type");
  if (!schedule.empty()) add("--schedule", schedule);
  if (const Json* params = values.find("scheduler.params"); params != nullptr && params->is_object()) {
    std::string list;
    for (const auto& [name, value] : params->items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : shown_value(value);
      list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, text);
    }
    if (!schedule.empty() && !list.empty()) add("--schedule-args", list);
  }
  if (!flags.empty()) notes.push_back(fmt::format("the file's training settings are flags of `train`: {}", flags));
}

void note_without_counterpart(const ConfigValues& values, std::vector<std::string>& notes) {
  constexpr std::array kKeys = {"zero_optimization.zero_quantized_weights",
                                "zero_optimization.zero_quantized_gradients",
                                "zero_optimization.zenflow",
                                "zero_optimization.offload_optimizer.super_offload",
                                "torch_autocast.enabled",
                                "amp.enabled",
                                "activation_checkpointing.partition_activations",
                                "activation_checkpointing.cpu_checkpointing"};
  for (const char* path : kKeys) {
    const Json* value = values.find(path);
    if (value != nullptr && is_truthy(*value)) notes.push_back(fmt::format("{} has no counterpart in a plan", path));
  }
  for (const char* path : {"zero_optimization.zero_hpz_partition_size", "zero_optimization.mics_shard_size"}) {
    const auto size = values.count(path);
    if (size && *size > 1) notes.push_back(fmt::format("{} has no counterpart in a plan", path));
  }
}

/// The batch sizes that the file decides; no micro batch where it names neither that nor a total.
void take_batch(const CheckReport& report, const ConfigTree& tree, bool has_batch, ConfigDecisions& decisions) {
  const auto positive = [](const Json& value) {
    const auto number = value.is_number_integer() ? coerce_integer(value) : std::nullopt;
    return number && *number > 0 ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
  };
  if (has_batch) decisions.fixed.micro_batch = positive(report.resolved.micro_batch_size);
  if (has_batch || tree.has(kSteps)) decisions.fixed.accumulation = positive(report.resolved.accumulation_steps);
}

Error refused(const ConfigText& read, const std::string& key, const std::string& message, const std::string& fix) {
  const MemberPlace* place = read.place_of(key);
  return Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", read.file, message))
      .at({.file = read.file,
           .line = place == nullptr ? std::nullopt : std::optional(place->value.line),
           .column = place == nullptr ? std::nullopt : std::optional(place->value.column),
           .key = key})
      .hint(fmt::format("{}; `zeroplan check {}` lists all findings", fix, read.file));
}

/// Texts that DeepSpeed's reader refuses or takes for something else.
void refuse_misread_text(const ConfigText& read) {
  for (const ReaderRemark& remark : read.remarks) {
    if (remark.kind == RemarkKind::kDuplicateKey)
      throw refused(read, remark.path, fmt::format("{} stands twice", remark.path), "keep one of them");
    if (remark.kind != RemarkKind::kUnquotedTextRunsOn && remark.kind != RemarkKind::kControlCharacter) continue;
    throw refused(read, "", fmt::format("line {}, column {} is no JSON", remark.at.line, remark.at.column),
                  "put texts into double quotes, without control characters")
        .at({.line = remark.at.line, .column = remark.at.column});
  }
}

}  // namespace

ConfigDecisions read_decisions(std::string_view text, const std::string& file, std::uint64_t ranks,
                               const BatchFlags& flags) {
  const ConfigText read = read_config_text(text, file);
  refuse_misread_text(read);
  const ConfigTree given(read.root);
  ConfigTree tree(without_autos(read.root));
  apply_flags(tree, ranks, flags);
  const bool has_batch = tree.has(kTotal) || tree.has(kMicro);
  if (!has_batch) tree.set(kMicro, 1);
  CheckInput input;
  input.config_file = file;
  input.config_text = tree.root().dump();
  input.training.gpus = ranks;
  const CheckReport report = check(input);
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::kError) continue;
    throw refused(read, finding.key, finding.message, finding.fix);
  }
  const ConfigValues values(tree);
  refuse_other_parallelism(values, file);
  ConfigDecisions decisions;
  take_batch(report, tree, has_batch, decisions);
  take_stage(values, given, decisions);
  take_sizes(values, decisions.fixed);
  take_precision(values, given, decisions);
  take_optimizer(values, file, decisions);
  note_training(values, decisions.notes);
  note_without_counterpart(values, decisions.notes);
  return decisions;
}

}  // namespace zeroplan::planner::deepspeed
