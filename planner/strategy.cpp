#include "planner/strategy.h"

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::planner {

Offload parse_offload(std::string_view text, std::string_view what) {
  const std::size_t colon = text.find(':');
  Offload offload;
  offload.place = parse_named<OffloadPlace>(text.substr(0, colon), what);
  if (colon != std::string_view::npos) {
    offload.fraction = parse_number(text.substr(colon + 1), what);
    if (offload.fraction < 0 || offload.fraction > 1) {
      throw Error(ErrorCode::kUsage, fmt::format("{} {}: expected a fraction from 0 to 1 after the colon", what, text))
          .at({.key = std::string(what), .value = std::string(text)});
    }
  }
  return offload;
}

std::string to_string(const Offload& offload) {
  if (offload.place == OffloadPlace::kNone || offload.fraction == 1) return std::string(name_of(offload.place));
  return fmt::format("{}:{}", name_of(offload.place), offload.fraction);
}

Json Strategy::to_json() const {
  return {{"stage", stage},
          {"micro_batch", micro_batch},
          {"accumulation", accumulation},
          {"recompute", name_of(recompute)},
          {"recompute_blocks", recompute_blocks},
          {"offload_optimizer", to_string(offload_optimizer)},
          {"offload_param", to_string(offload_param)},
          {"offload_gradients", to_string(offload_gradients)},
          {"offload_activations", to_string(offload_activations)},
          {"head_chunks", head_chunks},
          {"reduce_bucket_size", reduce_bucket_size},
          {"allgather_bucket_size", allgather_bucket_size},
          {"prefetch_bucket_size", prefetch_bucket_size},
          {"param_persistence_threshold", param_persistence_threshold},
          {"max_live_parameters", max_live_parameters},
          {"max_reuse_distance", max_reuse_distance},
          {"sub_group_size", sub_group_size}};
}

Strategy Strategy::from_json(const JsonView& view) {
  Strategy s;
  const auto count = [&view](std::string_view key) { return view.at(key).as_count(); };
  const auto offload = [&view](std::string_view key) { return parse_offload(view.at(key).as_string(), key); };
  s.stage = count("stage");
  s.micro_batch = count("micro_batch");
  s.accumulation = count("accumulation");
  s.recompute = parse_named<Recompute>(view.at("recompute").as_string(), "recompute");
  s.recompute_blocks = count("recompute_blocks");
  s.offload_optimizer = offload("offload_optimizer");
  s.offload_param = offload("offload_param");
  s.offload_gradients = offload("offload_gradients");
  s.offload_activations = offload("offload_activations");
  s.head_chunks = count("head_chunks");
  s.reduce_bucket_size = count("reduce_bucket_size");
  s.allgather_bucket_size = count("allgather_bucket_size");
  s.prefetch_bucket_size = count("prefetch_bucket_size");
  s.param_persistence_threshold = count("param_persistence_threshold");
  s.max_live_parameters = count("max_live_parameters");
  s.max_reuse_distance = count("max_reuse_distance");
  s.sub_group_size = count("sub_group_size");
  return s;
}

Strategy FixedDecisions::over_defaults() const {
  Strategy s;
  const auto put = [](const auto& fixed, auto& value) {
    if (fixed) value = *fixed;
  };
  put(stage, s.stage);
  put(micro_batch, s.micro_batch);
  put(accumulation, s.accumulation);
  put(recompute, s.recompute);
  put(recompute_blocks, s.recompute_blocks);
  put(offload_optimizer, s.offload_optimizer);
  put(offload_param, s.offload_param);
  s.offload_gradients = s.offload_optimizer;
  put(offload_gradients, s.offload_gradients);
  put(offload_activations, s.offload_activations);
  put(head_chunks, s.head_chunks);
  put(reduce_bucket_size, s.reduce_bucket_size);
  put(allgather_bucket_size, s.allgather_bucket_size);
  put(prefetch_bucket_size, s.prefetch_bucket_size);
  put(param_persistence_threshold, s.param_persistence_threshold);
  put(max_live_parameters, s.max_live_parameters);
  put(max_reuse_distance, s.max_reuse_distance);
  put(sub_group_size, s.sub_group_size);
  return s;
}

}  // namespace zeroplan::planner
