// Every decision of a plan, and the decisions that a user fixed (interface.md section 2, flags with a D).
// Main types: Offload, Strategy, FixedDecisions. Depends on models/core.
#pragma once

#include <optional>
#include <string>

#include "models/core/json.h"
#include "planner/named_values.h"

namespace zeroplan::planner {

/// Per block: nothing, the attention core only, or everything but the block's input.
enum class Recompute { kNone, kSelective, kFull };
template <>
inline constexpr auto kNamesOf<Recompute> = std::to_array<std::pair<Recompute, std::string_view>>(
    {{Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}});

/// Where a state lives when it is not on the device; spelled as users of DeepSpeed know it.
enum class OffloadPlace { kNone, kCpu, kNvme };
template <>
inline constexpr auto kNamesOf<OffloadPlace> = std::to_array<std::pair<OffloadPlace, std::string_view>>(
    {{OffloadPlace::kNone, "none"}, {OffloadPlace::kCpu, "cpu"}, {OffloadPlace::kNvme, "nvme"}});

/// A place and the fraction (0 to 1) of the state that goes there: "none", "cpu", "cpu:0.5".
struct Offload {
  OffloadPlace place = OffloadPlace::kNone;
  double fraction = 1;

  friend bool operator==(const Offload&, const Offload&) = default;
  bool any() const { return place != OffloadPlace::kNone && fraction > 0; }
};

/// \throws Error{kUsage}; `what` is the flag.
Offload parse_offload(std::string_view text, std::string_view what);
std::string to_string(const Offload& offload);

/// Decisions, all of them. Sizes of buckets, thresholds and distances are in elements; the defaults are DeepSpeed's.
struct Strategy {
  std::uint64_t stage = 0;
  std::uint64_t micro_batch = 1;
  std::uint64_t accumulation = 1;
  Recompute recompute = Recompute::kNone;
  std::uint64_t recompute_blocks = 0;  ///< how many blocks, from the first, are recomputed; all of them with kFull
  Offload offload_optimizer;
  Offload offload_param;
  Offload offload_gradients;
  Offload offload_activations;
  std::uint64_t head_chunks = 1;
  std::uint64_t reduce_bucket_size = 500'000'000;
  std::uint64_t allgather_bucket_size = 500'000'000;
  std::uint64_t prefetch_bucket_size = 50'000'000;
  std::uint64_t param_persistence_threshold = 100'000;
  std::uint64_t max_live_parameters = 1'000'000'000;
  std::uint64_t max_reuse_distance = 1'000'000'000;
  std::uint64_t sub_group_size = 1'000'000'000;

  friend bool operator==(const Strategy&, const Strategy&) = default;
  Json to_json() const;
  /// \throws Error{kInvalidInput, kUsage}
  static Strategy from_json(const JsonView& view);
};

/// What the user fixed; the rest is chosen.
struct FixedDecisions {
  std::optional<std::uint64_t> stage;
  std::optional<std::uint64_t> micro_batch;
  std::optional<std::uint64_t> accumulation;
  std::optional<Recompute> recompute;
  std::optional<std::uint64_t> recompute_blocks;
  std::optional<Offload> offload_optimizer;
  std::optional<Offload> offload_param;
  std::optional<Offload> offload_gradients;
  std::optional<Offload> offload_activations;
  std::optional<std::uint64_t> head_chunks;
  std::optional<std::uint64_t> reduce_bucket_size;
  std::optional<std::uint64_t> allgather_bucket_size;
  std::optional<std::uint64_t> prefetch_bucket_size;
  std::optional<std::uint64_t> param_persistence_threshold;
  std::optional<std::uint64_t> max_live_parameters;
  std::optional<std::uint64_t> max_reuse_distance;
  std::optional<std::uint64_t> sub_group_size;

  /// The defaults of `Strategy` with what was fixed put in.
  Strategy over_defaults() const;
};

}  // namespace zeroplan::planner
