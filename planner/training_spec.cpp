#include "planner/training_spec.h"

#include <fmt/format.h>

namespace zeroplan::planner {
namespace {

Error wrong(std::string_view flag, std::string value, std::string_view expected) {
  return Error(ErrorCode::kUsage, fmt::format("{} {}: expected {}", flag, value, expected))
      .at({.key = std::string(flag), .value = std::move(value)});
}

std::vector<std::string> strings_of(const JsonView& view, std::string_view key) {
  std::vector<std::string> result;
  if (!view.has(key)) return result;
  const JsonView list = view.at(key);
  for (std::size_t i = 0; i < list.array_size(); ++i) result.push_back(list.at(i).as_string());
  return result;
}

}  // namespace

void TrainingSpec::validate() const {
  constexpr std::uint64_t kMostRanks = 1u << 20;
  if (gpus == 0 || gpus > kMostRanks) throw wrong("--gpus", fmt::format("{}", gpus), "1 to 1048576 ranks");
  if (nodes == 0) throw wrong("--nodes", "0", "at least 1 node");
  if (gpus % nodes != 0) {
    throw wrong("--nodes", fmt::format("{}", nodes), fmt::format("a number that divides the {} ranks", gpus));
  }
  constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 31;
  if (seq == 0 || seq > kMostTokens) throw wrong("--seq", fmt::format("{}", seq), "1 to 2147483648 tokens");
  const bool single_process = framework == Framework::kPytorch;
  if (single_process && gpus != 1) throw wrong("--gpus", fmt::format("{}", gpus), "1 with --framework pytorch");
  const bool torch = framework == Framework::kPytorch || framework == Framework::kDdp;
  const bool torch_precision =
      precision == Precision::kFp32 || precision == Precision::kAmp || precision == Precision::kBf16;
  if (torch && !torch_precision) {
    throw wrong("--precision", std::string(name_of(precision)),
                fmt::format("fp32, amp or bf16 with --framework {}", name_of(framework)));
  }
  if (!torch && precision == Precision::kAmp) {
    throw wrong("--precision", "amp",
                fmt::format("fp32, bf16, bf16-mixed or fp16-mixed with --framework {}", name_of(framework)));
  }
  if (framework != Framework::kNative && gradient_dtype != GradientType::kWeights) {
    throw wrong("--gradient-dtype", std::string(name_of(gradient_dtype)),
                fmt::format("weights with --framework {}", name_of(framework)));
  }
  if (lora_rank == 0 || lora_rank > 65536) throw wrong("--lora-rank", fmt::format("{}", lora_rank), "1 to 65536");
}

Json TrainingSpec::to_json() const {
  return {{"framework", name_of(framework)},
          {"gpus", gpus},
          {"nodes", nodes},
          {"global_batch", global_batch ? Json(*global_batch) : Json(nullptr)},
          {"seq", seq},
          {"precision", name_of(precision)},
          {"optimizer", name_of(optimizer)},
          {"optimizer_impl", name_of(optimizer_impl)},
          {"attention", name_of(attention)},
          {"dropout", 0},
          {"comm", name_of(comm)},
          {"backend", name_of(backend)},
          {"reshard", reshard},
          {"reduce_dtype", name_of(reduce_dtype)},
          {"gradient_dtype", name_of(gradient_dtype)},
          {"method", name_of(method)},
          {"lora_rank", lora_rank},
          {"lora_targets", lora_targets},
          {"quant", name_of(quant)},
          {"freeze", freeze}};
}

TrainingSpec TrainingSpec::from_json(const JsonView& view) {
  TrainingSpec spec;
  const auto named = [&view]<class E>(std::string_view key, E) {
    return parse_named<E>(view.at(key).as_string(), key);
  };
  spec.framework = named("framework", Framework{});
  spec.gpus = view.at("gpus").as_count();
  spec.nodes = view.at("nodes").as_count();
  if (view.has("global_batch")) spec.global_batch = view.at("global_batch").as_count();
  spec.seq = view.at("seq").as_count();
  spec.precision = named("precision", Precision{});
  spec.optimizer = named("optimizer", OptimizerKind{});
  spec.optimizer_impl = named("optimizer_impl", OptimizerImplementation{});
  spec.attention = named("attention", AttentionKind{});
  spec.comm = named("comm", CommKind{});
  spec.backend = named("backend", BackendKind{});
  spec.reshard = view.at("reshard").as_bool();
  spec.reduce_dtype = named("reduce_dtype", ReduceType{});
  // Plans from before the key was there kept gradients in the type of the weights.
  if (view.has("gradient_dtype")) spec.gradient_dtype = named("gradient_dtype", GradientType{});
  spec.method = named("method", Method{});
  spec.lora_rank = view.at("lora_rank").as_count();
  spec.lora_targets = strings_of(view, "lora_targets");
  spec.quant = named("quant", Quantisation{});
  spec.freeze = strings_of(view, "freeze");
  spec.validate();
  return spec;
}

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kAmp:
      return DType::kFp32;
    case Precision::kBf16:
    case Precision::kBf16Mixed:
      return DType::kBf16;
    case Precision::kFp16Mixed:
      return DType::kFp16;
  }
  return DType::kFp32;
}

DType gradient_dtype(const TrainingSpec& training) {
  return training.gradient_dtype == GradientType::kFp32 ? DType::kFp32 : compute_dtype(training.precision);
}

bool has_master_weights(Precision precision) {
  return precision == Precision::kBf16Mixed || precision == Precision::kFp16Mixed;
}

DType moment_dtype(Precision precision) {
  return precision == Precision::kBf16 ? DType::kBf16 : DType::kFp32;
}

std::uint64_t moment_count(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamW:
    case OptimizerKind::kAdam:
    case OptimizerKind::kLamb:
    case OptimizerKind::kAdamW8bit:
      return 2;
    case OptimizerKind::kSgd:
    case OptimizerKind::kLion:
    case OptimizerKind::kAdagrad:
      return 1;
    case OptimizerKind::kAdafactor:
      return 0;
  }
  return 0;
}

}  // namespace zeroplan::planner
