// The plan: a static schedule with every buffer's tier, offset and lifetime (docs/plan-format.md). The simulator and
// the runtime interpret this one object. Main types: Tier, Buffer, Access, Task, Step, Plan. Must not depend on
// simulator, runtime, kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/model.h"
#include "models/program.h"
#include "planner/machine.h"
#include "planner/partition.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"

namespace zeroplan::planner {

enum class Tier { kDevice, kHost, kDisk };
constexpr std::size_t kTierCount = 3;
template <>
inline constexpr auto kNamesOf<Tier> = std::to_array<std::pair<Tier, std::string_view>>({{Tier::kDevice, "device"},
                                                                                         {Tier::kHost, "host"},
                                                                                         {Tier::kDisk, "disk"}});

using BufferId = std::uint32_t;
using TaskId = std::uint32_t;
constexpr BufferId kNoBuffer = 0xffffffffu;

/// In-order queues. A lane is a thread on the CPU, a stream on a GPU, a queue in the simulator.
enum class Lane { kCompute, kGather, kReduce, kH2d, kD2h, kDisk, kCpu };
template <>
inline constexpr auto kNamesOf<Lane> = std::to_array<std::pair<Lane, std::string_view>>({{Lane::kCompute, "compute"},
                                                                                         {Lane::kGather, "gather"},
                                                                                         {Lane::kReduce, "reduce"},
                                                                                         {Lane::kH2d, "h2d"},
                                                                                         {Lane::kD2h, "d2h"},
                                                                                         {Lane::kDisk, "disk"},
                                                                                         {Lane::kCpu, "cpu"}});
constexpr std::size_t kLaneCount = 7;

/// Named bytes on a tier.
struct Buffer {
  BufferId id = 0;
  std::string name;  ///< the holder: "block 7 / saved"
  Tier tier = Tier::kDevice;
  Bytes offset;
  Bytes bytes;
  bool always = false;       ///< keeps its value over steps and phases and shares its addresses with nobody
  bool spans_cycle = false;  ///< keeps its value from one micro-step to the next (gradients that accumulate)
  TaskId first = 0;          ///< not always: tasks between which all users are
  TaskId last = 0;
};

/// Part of a buffer.
struct Access {
  BufferId buffer = kNoBuffer;
  Bytes offset;
  Bytes bytes;
  friend bool operator==(const Access&, const Access&) = default;
};

enum class TaskKind {
  kLoad,         ///< init: fills parameters (and master weights) of a group, this rank's shard or all of it
  kFill,         ///< init: zeroes moments, writes the rotary table
  kInput,        ///< the next micro-batch's tokens and labels; with the first of a step its scalars
  kGather,       ///< all-gather of shards into a gathered buffer (stage 3) or in place after the update (stages 1, 2)
  kRelease,      ///< stage 3: a gathered group is dropped
  kForward,      ///< a unit's forward program
  kLoss,         ///< the last unit: forward, loss and backward in one program; in eval without the backward
  kBackward,     ///< a unit's backward program, recomputing first where it is to
  kReduce,       ///< reduce-scatter or all-reduce of gradients
  kNorm,         ///< partial sum of squares over this rank's shards
  kGatherNorm,   ///< all ranks' partial sums and losses
  kFinishNorm,   ///< gradient norm, clip factor, found_inf, loss
  kMoments,      ///< LAMB: the moments of a sub-group
  kTensorNorms,  ///< LAMB: sums of squares of parameters and directions, per tensor, over this rank's shards
  kGatherTensorNorms,  ///< LAMB: all ranks' sums
  kTrustRatios,        ///< LAMB: the factor of each tensor's update
  kUpdate,             ///< the optimizer over a sub-group
  kSave,               ///< save: hands this rank's shards of a group to the checkpoint writer
};
template <>
inline constexpr auto kNamesOf<TaskKind> =
    std::to_array<std::pair<TaskKind, std::string_view>>({{TaskKind::kLoad, "load"},
                                                          {TaskKind::kFill, "fill"},
                                                          {TaskKind::kInput, "input"},
                                                          {TaskKind::kGather, "gather"},
                                                          {TaskKind::kRelease, "release"},
                                                          {TaskKind::kForward, "forward"},
                                                          {TaskKind::kLoss, "loss"},
                                                          {TaskKind::kBackward, "backward"},
                                                          {TaskKind::kReduce, "reduce"},
                                                          {TaskKind::kNorm, "norm"},
                                                          {TaskKind::kGatherNorm, "gather-norm"},
                                                          {TaskKind::kFinishNorm, "finish-norm"},
                                                          {TaskKind::kMoments, "moments"},
                                                          {TaskKind::kTensorNorms, "tensor-norms"},
                                                          {TaskKind::kGatherTensorNorms, "gather-tensor-norms"},
                                                          {TaskKind::kTrustRatios, "trust-ratios"},
                                                          {TaskKind::kUpdate, "update"},
                                                          {TaskKind::kSave, "save"}});

constexpr std::uint32_t kNoIndex = 0xffffffffu;

/// The buffer in which a program finds a group's parameters or gradients.
struct GroupBinding {
  std::uint32_t group = 0;
  BufferId parameters = kNoBuffer;  ///< holds the whole padded group
  BufferId gradients = kNoBuffer;   ///< likewise; kNoBuffer in forward tasks
};

/// A program with the buffers that its places stand for (TensorPlace).
struct ComputeWork {
  std::uint32_t unit = 0;     ///< index into Model::units
  std::uint32_t program = 0;  ///< index into Plan::programs
  BufferId input = kNoBuffer;
  BufferId output = kNoBuffer;
  BufferId residual_gradient = kNoBuffer;
  BufferId saved = kNoBuffer;
  BufferId tokens = kNoBuffer;
  BufferId labels = kNoBuffer;
  BufferId rotary_table = kNoBuffer;
  BufferId scalars = kNoBuffer;
  std::vector<GroupBinding> groups;
  std::vector<Access>
      clears;  ///< zeroed before the first op: padding of gradient groups that are written for the first time
};

/// Elements [begin, end) of each rank's shard of a group. A collective moves one or several of these.
struct ShardPiece {
  std::uint32_t group = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

enum class CollectiveKind { kAllGather, kReduceScatter, kAllReduce };

/// A collective over all ranks. The piece [begin, end) of rank r lies at element r x shard + [begin, end) of a whole
/// group.
struct CollectiveWork {
  CollectiveKind kind = CollectiveKind::kAllGather;
  DType dtype = DType::kFp32;
  std::vector<ShardPiece> pieces;
  /// Per piece. All-gather: this rank's shard (a shard buffer, or the whole group's when in place). Reductions: the
  /// whole group.
  std::vector<BufferId> source;
  bool source_is_shard = false;  ///< source buffers hold this rank's shard alone
  /// Per piece. All-gather: the whole group. Reduce-scatter: a shard buffer, or the source (in place). All-reduce: the
  /// source.
  std::vector<BufferId> destination;
  bool destination_is_shard = false;
  bool accumulate = false;       ///< reduce-scatter into a shard buffer: the sum over ranks is added to what is there
  BufferId staging = kNoBuffer;  ///< reductions between processes: where the parts of the other ranks come in
  /// Elements that the collective moves: the sum over pieces of ranks x (end - begin).
  std::uint64_t elements(const Partition& partition) const;
};

/// Elements [begin, end) of this rank's shard of a group, with where its states lie.
struct UpdatePiece {
  ShardPiece piece;
  BufferId parameters = kNoBuffer;    ///< compute type
  bool parameters_are_shard = false;  ///< else the whole group (then at stage 0 all elements are updated)
  BufferId gradients = kNoBuffer;
  bool gradients_are_shard = false;
  BufferId master = kNoBuffer;  ///< fp32; kNoBuffer without mixed precision
  std::vector<BufferId> moments;
  bool states_are_shard = true;  ///< master and moments hold a shard; else the whole group
  bool whole_group = false;      ///< stage 0: [begin, end) counts elements of the whole padded group
};

/// The host's end of what a task moves between host and device; all kNoBuffer without a GPU.
struct HostSide {
  BufferId staging = kNoBuffer;   ///< kLoad, kSave, kFill: one state of one group at a time
  BufferId tokens = kNoBuffer;    ///< kInput: of all micro-steps of an update
  BufferId labels = kNoBuffer;    ///< likewise
  BufferId scalars = kNoBuffer;   ///< kInput: as the update begins with them; kFinishNorm: as it leaves them
  BufferId partials = kNoBuffer;  ///< kFinishNorm: a copy of "norm partials"
};

/// kMoments, kUpdate: a sub-group. kNorm, kTensorNorms: all pieces whose squares are summed. kLoad, kFill, kSave: one
/// group.
struct StateWork {
  std::vector<UpdatePiece> pieces;
  BufferId scalars = kNoBuffer;
  BufferId norm_partials = kNoBuffer;  ///< kNorm, kGatherNorm, kFinishNorm
  BufferId tensor_norms = kNoBuffer;   ///< kTensorNorms, kGatherTensorNorms, kTrustRatios: [rank][parameter]
  BufferId trust_ratios = kNoBuffer;   ///< kTrustRatios, kUpdate of LAMB: [parameter]
  BufferId workspace = kNoBuffer;      ///< kNorm, kTensorNorms, kUpdate on a GPU: scratch of the kernels
  HostSide host;                       ///< kLoad, kSave, kFinishNorm on a GPU
};

/// kInput, kRelease, kFill of the rotary table and others that need no more than buffers.
struct BufferWork {
  std::uint32_t group = kNoIndex;  ///< kRelease, kLoad, kSave
  std::uint64_t micro_step = 0;    ///< kInput
  BufferId tokens = kNoBuffer;
  BufferId labels = kNoBuffer;
  BufferId scalars = kNoBuffer;  ///< kInput of the first micro-step writes them
  BufferId target = kNoBuffer;   ///< kFill
  HostSide host;                 ///< kInput, kFill on a GPU
};

using Work = std::variant<BufferWork, ComputeWork, CollectiveWork, StateWork>;

/// One scheduled thing on one lane.
struct Task {
  TaskId id = 0;
  std::string key;  ///< unique in its step: "gather/block 3/forward"
  TaskKind kind = TaskKind::kInput;
  Lane lane = Lane::kCompute;
  std::uint32_t unit = kNoIndex;
  std::uint32_t program = kNoIndex;
  BufferId frame = kNoBuffer;
  std::vector<Access> reads;
  std::vector<Access> writes;
  std::vector<TaskId> waits;                ///< earlier tasks of the step
  std::vector<std::string> waits_previous;  ///< keys of the training step before
  Work work;
};

/// A phase (init, save, eval) or a training step (only; first, middle, last).
struct Step {
  std::string name;
  std::vector<Task> tasks;
  bool is_training() const { return name != "init" && name != "save" && name != "eval"; }
};

/// One tier of a plan.
struct TierPlan {
  std::optional<Bytes> budget;   ///< this rank's share; absent: no limit
  std::uint64_t alignment = 64;  ///< of buffers; a power of two
  Bytes arena;
  Bytes lower_bound;
  std::vector<BufferId> lower_bound_holders;
  Bytes op_lower_bound;  ///< see op_level_bound
};

/// Everything about one rank's run.
struct Plan {
  models::Model model;
  Machine machine;
  TrainingSpec training;
  Strategy strategy;
  Partition partition;
  std::array<TierPlan, kTierCount> tiers;
  std::vector<Lane> lanes;
  std::vector<Buffer> buffers;  ///< index = id
  std::vector<Step> steps;
  std::vector<models::Program> programs;

  const TierPlan& tier(Tier t) const { return tiers[static_cast<std::size_t>(t)]; }
  TierPlan& tier(Tier t) { return tiers[static_cast<std::size_t>(t)]; }
  const Step* find_step(std::string_view name) const;
  /// Tokens of one micro-batch on one rank.
  std::uint64_t tokens_per_pass() const { return strategy.micro_batch * training.seq; }
  /// Tokens of all ranks between two updates.
  std::uint64_t tokens_per_update() const { return tokens_per_pass() * strategy.accumulation * training.gpus; }
};

/// The name of the always-live buffer with what changes from step to step.
constexpr std::string_view kStepScalars = "step scalars";
/// Bytes planned for it; the runtime's struct must fit.
constexpr Bytes kStepScalarsBytes{256};
/// One entry a rank in the buffer "norm partials": sum of squares (double), loss (double).
constexpr Bytes kNormPartialBytes{16};
/// One entry a rank and parameter in the buffer "tensor norms": sums of squares of parameter and direction (doubles).
constexpr Bytes kTensorNormBytes{16};
/// One entry a parameter in the buffer "trust ratios" (double).
constexpr Bytes kTrustRatioBytes{8};
/// Elements that an update on a GPU widens at once where all states have 16 bits.
constexpr Elements kNarrowUpdateBlock{std::uint64_t{1} << 20};

}  // namespace zeroplan::planner
