// What is trained and by whom: the facts of a run that no planner may change (interface.md section 2, flags without a
// D). Main types: TrainingSpec and its enumerations. Depends on models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/json.h"
#include "planner/named_values.h"

namespace zeroplan::planner {

enum class Framework { kNative, kPytorch, kDdp, kFsdp2, kDeepspeed };
template <>
inline constexpr auto kNamesOf<Framework> =
    std::to_array<std::pair<Framework, std::string_view>>({{Framework::kNative, "native"},
                                                           {Framework::kPytorch, "pytorch"},
                                                           {Framework::kDdp, "ddp"},
                                                           {Framework::kFsdp2, "fsdp2"},
                                                           {Framework::kDeepspeed, "deepspeed"}});

/// bf16-mixed and fp16-mixed: 16-bit weights and gradients with fp32 master weights and moments; bf16: all in bf16;
/// amp: fp32 weights under bf16 autocast.
enum class Precision { kFp32, kAmp, kBf16, kBf16Mixed, kFp16Mixed };
template <>
inline constexpr auto kNamesOf<Precision> =
    std::to_array<std::pair<Precision, std::string_view>>({{Precision::kFp32, "fp32"},
                                                           {Precision::kAmp, "amp"},
                                                           {Precision::kBf16, "bf16"},
                                                           {Precision::kBf16Mixed, "bf16-mixed"},
                                                           {Precision::kFp16Mixed, "fp16-mixed"}});

enum class OptimizerKind { kAdamW, kAdam, kSgd, kLion, kAdagrad, kLamb, kAdafactor, kAdamW8bit };
template <>
inline constexpr auto kNamesOf<OptimizerKind> =
    std::to_array<std::pair<OptimizerKind, std::string_view>>({{OptimizerKind::kAdamW, "adamw"},
                                                               {OptimizerKind::kAdam, "adam"},
                                                               {OptimizerKind::kSgd, "sgd"},
                                                               {OptimizerKind::kLion, "lion"},
                                                               {OptimizerKind::kAdagrad, "adagrad"},
                                                               {OptimizerKind::kLamb, "lamb"},
                                                               {OptimizerKind::kAdafactor, "adafactor"},
                                                               {OptimizerKind::kAdamW8bit, "adamw-8bit"}});

/// How PyTorch updates: decides the temporaries of the optimizer step.
enum class OptimizerImplementation { kFused, kForeach, kLoop };
template <>
inline constexpr auto kNamesOf<OptimizerImplementation> =
    std::to_array<std::pair<OptimizerImplementation, std::string_view>>({{OptimizerImplementation::kFused, "fused"},
                                                                         {OptimizerImplementation::kForeach, "foreach"},
                                                                         {OptimizerImplementation::kLoop, "loop"}});

/// One fused kernel, or scores kept in memory.
enum class AttentionKind { kSdpa, kEager };
template <>
inline constexpr auto kNamesOf<AttentionKind> = std::to_array<std::pair<AttentionKind, std::string_view>>(
    {{AttentionKind::kSdpa, "sdpa"}, {AttentionKind::kEager, "eager"}});

/// Who runs the collectives of a native run.
enum class CommKind { kLoopback, kMpi, kNccl };
template <>
inline constexpr auto kNamesOf<CommKind> = std::to_array<std::pair<CommKind, std::string_view>>(
    {{CommKind::kLoopback, "loopback"}, {CommKind::kMpi, "mpi"}, {CommKind::kNccl, "nccl"}});

/// Whose kernels a native run uses.
enum class BackendKind { kCpu, kCuda };
template <>
inline constexpr auto kNamesOf<BackendKind> =
    std::to_array<std::pair<BackendKind, std::string_view>>({{BackendKind::kCpu, "cpu"}, {BackendKind::kCuda, "cuda"}});

/// What is trained.
enum class Method { kFull, kLora, kQlora };
template <>
inline constexpr auto kNamesOf<Method> = std::to_array<std::pair<Method, std::string_view>>(
    {{Method::kFull, "full"}, {Method::kLora, "lora"}, {Method::kQlora, "qlora"}});

/// How qlora keeps the frozen linear layers.
enum class Quantisation { kNf4, kNf4Double, kInt8 };
template <>
inline constexpr auto kNamesOf<Quantisation> = std::to_array<std::pair<Quantisation, std::string_view>>(
    {{Quantisation::kNf4, "nf4"}, {Quantisation::kNf4Double, "nf4-dq"}, {Quantisation::kInt8, "int8"}});

/// In what type a native run keeps, accumulates and reduces the parameters' gradients: that of the weights, or fp32.
enum class GradientType { kWeights, kFp32 };
template <>
inline constexpr auto kNamesOf<GradientType> = std::to_array<std::pair<GradientType, std::string_view>>(
    {{GradientType::kWeights, "weights"}, {GradientType::kFp32, "fp32"}});

enum class ReduceType { kFp32, kBf16 };
template <>
inline constexpr auto kNamesOf<ReduceType> =
    std::to_array<std::pair<ReduceType, std::string_view>>({{ReduceType::kFp32, "fp32"}, {ReduceType::kBf16, "bf16"}});

/// The facts of a run.
struct TrainingSpec {
  Framework framework = Framework::kNative;
  std::uint64_t gpus = 1;                     ///< ranks in all
  std::uint64_t nodes = 1;                    ///< hosts over which they are spread evenly
  std::optional<std::uint64_t> global_batch;  ///< sequences per update over all ranks
  std::uint64_t seq = 0;                      ///< tokens per sequence
  Precision precision = Precision::kBf16Mixed;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  OptimizerImplementation optimizer_impl = OptimizerImplementation::kFused;
  AttentionKind attention = AttentionKind::kSdpa;
  CommKind comm = CommKind::kLoopback;
  BackendKind backend = BackendKind::kCpu;
  bool reshard = true;  ///< fsdp2: gathered weights are freed after the forward pass
  ReduceType reduce_dtype = ReduceType::kFp32;
  GradientType gradient_dtype = GradientType::kWeights;
  Method method = Method::kFull;
  std::uint64_t lora_rank = 8;
  std::vector<std::string> lora_targets;  ///< empty: all linear layers
  Quantisation quant = Quantisation::kNf4;
  std::vector<std::string> freeze;  ///< names or globs of parameters without gradient

  friend bool operator==(const TrainingSpec&, const TrainingSpec&) = default;

  /// Ranks on one node.
  std::uint64_t ranks_per_node() const { return gpus / nodes; }
  /// \throws Error{kUsage} for no ranks, no nodes, ranks that do not spread evenly, precisions or collectives that the
  /// framework lacks.
  void validate() const;
  Json to_json() const;
  /// \throws Error{kInvalidInput, kUsage}
  static TrainingSpec from_json(const JsonView& view);
};

/// Element type of weights, activations and gradients as the kernels see them.
DType compute_dtype(Precision precision);
/// Element type of the parameters' gradients of a native run.
DType gradient_dtype(const TrainingSpec& training);
/// True where fp32 master weights stand beside 16-bit ones.
bool has_master_weights(Precision precision);
/// Element type of the optimizer's moments.
DType moment_dtype(Precision precision);
/// Moments per parameter that live as whole tensors: AdamW 2, SGD with momentum 1, Adagrad 1, ...
std::uint64_t moment_count(OptimizerKind kind);

}  // namespace zeroplan::planner
