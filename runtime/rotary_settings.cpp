#include "runtime/rotary_settings.h"

#include <fmt/format.h>

namespace zeroplan::runtime {

kernels::RotaryTable rotary_settings(const models::DecoderShape& shape, std::uint64_t positions) {
  kernels::RotaryTable table;
  table.positions = positions;
  table.head_size = shape.head_size;
  table.theta = shape.rope_theta;
  if (!shape.rope_scaling) return table;
  const JsonView scaling(*shape.rope_scaling, "config.json", "rope_scaling");
  const std::string type = scaling.string_or("rope_type", "default");
  if (type == "default") return table;
  if (type == "linear") {
    table.scaling = kernels::RotaryScaling::kLinear;
    table.factor = scaling.at("factor").as_number();
  } else if (type == "llama3") {
    table.scaling = kernels::RotaryScaling::kLlama3;
    table.factor = scaling.at("factor").as_number();
    table.low_frequency_factor = scaling.at("low_freq_factor").as_number();
    table.high_frequency_factor = scaling.at("high_freq_factor").as_number();
    table.original_positions = scaling.at("original_max_position_embeddings").as_number();
  } else {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("rope_type {}: the runtime knows default, linear and llama3", type));
  }
  return table;
}

}  // namespace zeroplan::runtime
