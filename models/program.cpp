#include "models/program.h"

#include <array>

namespace zeroplan::models {

std::string_view to_string(OpKind kind) {
  constexpr std::array<std::string_view, 20> kNames = {
      "embedding_forward",      "embedding_backward", "layer_norm_forward", "layer_norm_backward",
      "rms_norm_forward",       "rms_norm_backward",  "linear_forward",     "linear_backward_input",
      "linear_backward_weight", "rotary_forward",     "rotary_backward",    "attention_forward",
      "attention_backward",     "gelu_forward",       "gelu_backward",      "gated_silu_forward",
      "gated_silu_backward",    "residual_add",       "cross_entropy",      "loss_sum"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Flops Program::flops() const {
  Flops sum;
  for (const Op& op : ops) sum += op.flops;
  return sum;
}

Bytes Program::bytes_moved() const {
  Bytes sum;
  for (const Op& op : ops) sum += op.bytes_moved;
  return sum;
}

}  // namespace zeroplan::models
