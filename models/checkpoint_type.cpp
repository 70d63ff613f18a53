#include "models/checkpoint_type.h"

#include <fmt/format.h>

namespace zeroplan::models {
namespace {

/// "4-bit awq", "fp8"; the method in lower case goes to the model.
std::string describe(const HfConfig& quantisation, Model& model) {
  model.quantisation = quantisation.text({"quant_method"}, "");
  const bool is_bitsandbytes = quantisation.flag({"load_in_4bit"}, false) || quantisation.flag({"load_in_8bit"}, false);
  if (model.quantisation.empty()) model.quantisation = is_bitsandbytes ? "bitsandbytes" : "unknown";
  std::uint64_t bits = quantisation.optional_width({"bits", "w_bit"}, 64).value_or(0);
  if (quantisation.flag({"load_in_4bit"}, false)) bits = 4;
  if (quantisation.flag({"load_in_8bit"}, false)) bits = 8;
  return bits > 0 ? fmt::format("{}-bit {}", bits, model.quantisation) : model.quantisation;
}

}  // namespace

void read_checkpoint_type(const HfConfig& config, Model& model) {
  const std::string_view key = config.has("torch_dtype") ? "torch_dtype" : "dtype";
  const HfConfig& text = config;
  if (text.has(key)) {
    const std::string name = text.text({key}, "");
    const auto type = name == "auto" ? std::optional<DType>(DType::kFp32) : parse_dtype(name);
    if (!type) throw text.unexpected(key, "float32, bfloat16 or float16", "write the type as transformers does");
    model.checkpoint_dtype = *type;
  } else if (const HfConfig inner = config.part("text_config"); inner.has("torch_dtype") || inner.has("dtype")) {
    const auto type = parse_dtype(inner.text({"torch_dtype", "dtype"}, ""));
    if (type) model.checkpoint_dtype = *type;
  }
  if (!config.has("quantization_config")) return;
  const std::string what = describe(config.part("quantization_config"), model);
  model.notes.push_back(
      fmt::format("the checkpoint is quantised ({}): parameters are counted by their logical shapes, packed weights "
                  "and scales are not "
                  "parameters that can be trained",
                  what));
  model.native_obstacles.push_back(
      fmt::format("quantization_config is {}; the native runtime trains unquantised weights", what));
}

}  // namespace zeroplan::models
