#include "planner/deepspeed/hidden_size.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/deepspeed/coercion.h"

namespace zeroplan::planner::deepspeed {
namespace {

/// Spellings that transformers maps to hidden_size.
constexpr std::array<std::string_view, 6> kSpellings = {"n_embd", "d_model", "n_embed", "dim", "emb_dim", "hidden_dim"};

/// Parts of composite configs that hold the language model, in order of preference.
constexpr std::array<std::string_view, 9> kParts = {"text_config",   "language_config", "llm_config",
                                                    "decoder",       "text_encoder",    "thinker_config",
                                                    "talker_config", "language_model",  "encoder"};

struct FamilyDefault {
  std::string_view family;
  std::uint64_t hidden;
};
/// Widths that a config may leave out because they are its class's default (transformers).
constexpr FamilyDefault kDefaults[] = {
    {"llama", 4096},
    {"mistral", 4096},
    {"mixtral", 4096},
    {"qwen2", 4096},
    {"qwen3", 4096},
    {"gemma", 3072},
    {"gemma2", 2304},
    {"gemma3_text", 2304},
    {"bert", 768},
    {"roberta", 768},
    {"gpt2", 768},
    {"opt", 768},
    {"gpt_neox", 6144},
    {"t5", 512},
    {"bart", 1024},
    {"phi", 2048},
    {"phi3", 3072},
    {"vit", 768},
    {"clip_text_model", 512},
    {"bloom", 64},
    {"falcon", 4544},
    {"distilbert", 768},
    {"deberta-v2", 1536},
    {"vicuna", 4096},
};

std::optional<std::uint64_t> width(const Json& config, std::string_view key) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number()) return std::nullopt;
  const auto value = coerce_integer(*it);
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (!value || *value < 1 || *value > kMost) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<HiddenSize> in_object(const Json& config, const std::string& prefix) {
  if (const auto w = width(config, "hidden_size")) return HiddenSize{*w, prefix + "hidden_size"};
  for (const std::string_view key : kSpellings) {
    if (const auto w = width(config, key)) return HiddenSize{*w, prefix + std::string(key)};
  }
  const auto list = config.find("hidden_sizes");
  if (list != config.end() && list->is_array()) {
    std::uint64_t most = 0;
    for (const Json& element : *list) {
      const auto value = coerce_integer(element);
      if (value && *value > 0 && *value <= (std::int64_t{1} << 24))
        most = std::max(most, static_cast<std::uint64_t>(*value));
    }
    if (most > 0) return HiddenSize{most, "max of " + prefix + "hidden_sizes"};
  }
  // Swin-like pyramids: the width doubles with every stage.
  const auto first = width(config, "embed_dim");
  const auto depths = config.find("depths");
  if (first && depths != config.end() && depths->is_array() && !depths->empty() && depths->size() < 12) {
    return HiddenSize{*first << (depths->size() - 1), prefix + "embed_dim x 2^stages"};
  }
  return std::nullopt;
}

std::optional<HiddenSize> family_default(const Json& config, const std::string& prefix) {
  const auto it = config.find("model_type");
  if (it == config.end() || !it->is_string()) return std::nullopt;
  for (const FamilyDefault& known : kDefaults) {
    if (known.family == it->get_ref<const std::string&>()) {
      return HiddenSize{known.hidden, "the default of " + prefix + std::string(known.family)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<HiddenSize> find_hidden_size(const Json& model_config) {
  if (!model_config.is_object()) return std::nullopt;
  if (auto found = in_object(model_config, "")) return found;
  for (const std::string_view part : kParts) {
    const auto it = model_config.find(part);
    if (it == model_config.end() || !it->is_object()) continue;
    const std::string prefix = std::string(part) + ".";
    auto found = in_object(*it, prefix);
    if (!found) found = family_default(*it, prefix);
    if (!found && it->contains("text_config") && (*it)["text_config"].is_object()) {
      found = in_object((*it)["text_config"], prefix + "text_config.");
      if (found) found->trainer_finds = false;
    }
    if (!found) continue;
    found->trainer_finds = found->trainer_finds && part == "text_config";
    found->accelerate_finds = false;
    return found;
  }
  return family_default(model_config, "");
}

}  // namespace zeroplan::planner::deepspeed
