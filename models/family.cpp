#include "models/family.h"

#include <fmt/format.h>

namespace zeroplan::models {
DecoderSizes read_decoder_sizes(const HfConfig& config, const DecoderDefaults& defaults) {
  DecoderSizes sizes;
  sizes.hidden = config.width({"hidden_size", "n_embd", "n_embed"}, defaults.hidden);
  sizes.layers = config.layers({"num_hidden_layers", "n_layer"}, defaults.layers);
  sizes.heads = config.heads({"num_attention_heads", "n_head"}, defaults.heads);
  const auto kv_heads = config.optional_width({"num_key_value_heads"}, kMostHeads);
  sizes.kv_heads = kv_heads                ? *kv_heads
                   : defaults.kv_heads > 0 ? config.heads({"num_key_value_heads"}, defaults.kv_heads)
                                           : sizes.heads;
  const auto head_size = config.optional_width({"head_dim"});
  if (head_size) {
    sizes.head_size = *head_size;
  } else if (defaults.head_size > 0) {
    sizes.head_size = config.width({"head_dim"}, defaults.head_size);
  } else {
    config.require_divides(config.has("n_head") ? "n_head" : "num_attention_heads", sizes.heads, "hidden size",
                           sizes.hidden);
    sizes.head_size = sizes.hidden / sizes.heads;
  }
  config.require_divides("num_key_value_heads", sizes.kv_heads, "num_attention_heads", sizes.heads);
  const auto ffn = config.optional_width({"intermediate_size", "n_inner"});
  sizes.ffn = ffn ? *ffn : defaults.ffn > 0 ? config.width({"intermediate_size"}, defaults.ffn) : 4 * sizes.hidden;
  sizes.vocab = config.rows({"vocab_size"}, defaults.vocab);
  sizes.positions = config.rows({"max_position_embeddings", "n_positions"}, defaults.positions);
  return sizes;
}

void set_sizes(Model& model, const DecoderSizes& sizes) {
  model.hidden = sizes.hidden;
  model.vocab = sizes.vocab;
  model.positions = sizes.positions;
}

std::uint64_t read_labels(const HfConfig& config) {
  if (config.has("id2label")) {
    const std::uint64_t labels = config.view().at("id2label").as_object().size();
    if (labels == 0) throw config.unexpected("id2label", "at least one label", "remove the key or name the labels");
    return labels;
  }
  return config.optional_width({"num_labels"}).value_or(2);
}

Heads read_heads(const HfConfig& config, Model& model) {
  Heads heads;
  const std::string name = config.architecture();
  if (name.empty() || std::string_view(name).ends_with("ForCausalLM") ||
      std::string_view(name).ends_with("LMHeadModel"))
    return heads;
  heads.language_model = false;
  if (std::string_view(name).ends_with("ForSequenceClassification")) {
    heads.classifier = true;
    heads.labels = read_labels(config);
  } else if (!std::string_view(name).ends_with("Model")) {
    heads.language_model = true;
    model.notes.push_back(
        fmt::format("architecture {}: its head is not known here, counted as a causal language model", name));
  }
  if (!heads.language_model) {
    add_obstacle(config, model, "architectures", "trains causal language models only");
  }
  return heads;
}

void build_decoder(const HfConfig& config, Model& model, const DecoderSizes& sizes, const DecoderLayout& layout) {
  const Heads heads = read_heads(config, model);
  const std::string root = heads.prefix(layout.root);
  FamilyBuilder builder(model, init_std(config));
  builder.unit("embedding", UnitKind::kEmbedding, root, layout.embedding)
      .blocks(root + layout.layers, sizes.layers, layout.block)
      .unit("head", UnitKind::kHead, root, layout.top);
  if (heads.classifier) {
    builder.unit("head", UnitKind::kHead, "", {linear("score", sizes.hidden, heads.labels)});
  } else if (heads.language_model) {
    builder.head(layout.tied, "lm_head", root + layout.embedding.at(0).name, sizes.hidden, sizes.vocab,
                 layout.head_bias);
  }
  model.hidden = sizes.hidden;
  model.vocab = sizes.vocab;
  model.positions = sizes.positions;
}

std::function<Modules(std::uint64_t)> same_block(Modules modules) {
  return [modules = std::move(modules)](std::uint64_t) { return modules; };
}

EncoderHead read_encoder_head(const HfConfig& config, Model& model) {
  const std::string name = config.architecture();
  if (std::string_view(name).ends_with("ForMaskedLM") || std::string_view(name).ends_with("LMHeadModel"))
    return EncoderHead::kMaskedLanguageModel;
  if (std::string_view(name).ends_with("ForSequenceClassification") ||
      std::string_view(name).ends_with("ForImageClassification")) {
    return EncoderHead::kSequenceClassification;
  }
  if (std::string_view(name).ends_with("ForTokenClassification")) return EncoderHead::kTokenClassification;
  if (std::string_view(name).ends_with("ForQuestionAnswering")) return EncoderHead::kQuestionAnswering;
  if (name.empty()) {
    model.notes.push_back("the config names no architecture: counted without a task head");
  } else if (!std::string_view(name).ends_with("Model")) {
    model.notes.push_back(fmt::format("architecture {}: its head is not known here, counted without it", name));
  }
  return EncoderHead::kBare;
}

double init_std(const HfConfig& config, double fallback) {
  const double value = config.number({"initializer_range", "init_std"}, fallback);
  if (value < 0) {
    throw config.unexpected(config.has("initializer_range") ? "initializer_range" : "init_std",
                            "a standard deviation, not negative", "the usual value is 0.02");
  }
  return value;
}

Modules split_attention(const DecoderSizes& sizes, AttentionBias bias, const std::string& output) {
  return {linear("self_attn.q_proj", sizes.hidden, sizes.query_width(), bias.qkv),
          linear("self_attn.k_proj", sizes.hidden, sizes.kv_width(), bias.qkv),
          linear("self_attn.v_proj", sizes.hidden, sizes.kv_width(), bias.qkv),
          linear("self_attn." + output, sizes.query_width(), sizes.hidden, bias.output)};
}

Modules gated_mlp(const std::string& module, std::uint64_t hidden, std::uint64_t ffn, bool bias) {
  return {linear(module + ".gate_proj", hidden, ffn, bias), linear(module + ".up_proj", hidden, ffn, bias),
          linear(module + ".down_proj", ffn, hidden, bias)};
}

void add_obstacle(const HfConfig& config, Model& model, std::string_view key, std::string_view reason) {
  std::string value = config.has(key)
                          ? config.view().at(key).json().dump(-1, ' ', false, Json::error_handler_t::replace)
                          : "its default";
  constexpr std::size_t kLongestShown = 60;
  if (value.size() > kLongestShown) value = value.substr(0, kLongestShown) + "...";
  model.native_obstacles.push_back(fmt::format("{} is {}; the native runtime {}", key, value, reason));
}

}  // namespace zeroplan::models
