#include "planner/deepspeed/schema/schema.h"

namespace zeroplan::planner::deepspeed {
namespace {

using enum ValueType;

constexpr KeySpec kFp16[] = {
    {"enabled", kBool, "false"},
    {"auto_cast", kBool, "false"},
    KeySpec{"loss_scale", kNumber, "0"}.from(0),
    {"initial_scale_power", kInteger, "16"},
    {"loss_scale_window", kInteger, "1000"},
    {"hysteresis", kInteger, "2"},
    {"consecutive_hysteresis", kBool, "false"},
    {"min_loss_scale", kInteger, "1"},
    {"fp16_master_weights_and_grads", kBool, "false"},
};

constexpr KeySpec kBf16[] = {
    {"enabled", kBool, "false"},
    {"immediate_grad_update", kBool, "false"},
    {"check_grad_overflow", kBool, "true"},
    {"bf16_master_weights_and_grads", kBool, "false"},
    {"bf16_optimizer_states", kBool, "false"},
};

constexpr KeySpec kAmp[] = {{"enabled", kBool, "false"}, {"opt_level", kText}};

constexpr KeySpec kTorchAutocast[] = {
    {"enabled", kBool, "false"},
    KeySpec{"dtype", kChoice}.one_of(
        "bfloat16|bf16|float16|fp16|half|torch.bfloat16|torch.float16|float32|fp32|torch.float32|float"),
    KeySpec{"lower_precision_safe_modules", kList}.or_null(),
};

}  // namespace

std::vector<SectionSpec> precision_sections() {
  return {{"fp16", Reading::kStrict, kFp16},
          {"bf16", Reading::kStrict, kBf16},
          {"bfloat16", Reading::kStrict, kBf16},
          {"amp", Reading::kOpen, kAmp},
          {"torch_autocast", Reading::kPlain, kTorchAutocast}};
}

}  // namespace zeroplan::planner::deepspeed
