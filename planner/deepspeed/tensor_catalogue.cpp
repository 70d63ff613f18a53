#include "planner/deepspeed/tensor_catalogue.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "planner/deepspeed/hidden_size.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr const char* kLogitsAdvice =
    "shorten the sequence or lower the micro batch, or compute head and loss in chunks";
constexpr const char* kAttentionAdvice =
    "use a fused attention kernel (sdpa or flash attention), which keeps no scores; otherwise lower the micro batch or "
    "the sequence";
constexpr const char* kStateAdvice =
    "offload the optimizer (offload_optimizer to cpu), raise the ZeRO stage, or use more GPUs";
constexpr const char* kActivationAdvice = "lower the micro batch or the sequence, or recompute activations";

/// First of several keys of the config, or of its text_config, that is a positive whole number.
double size_of(const Json& config, std::initializer_list<const char*> keys) {
  if (!config.is_object()) return 0;
  for (const char* key : keys) {
    const auto it = config.find(key);
    if (it != config.end() && it->is_number() && it->get<double>() > 0 && it->get<double>() < 1e12)
      return it->get<double>();
  }
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? size_of(*text, keys) : 0;
}

class CatalogueBuilder {
 public:
  explicit CatalogueBuilder(const CheckInput& input) : input_(input) {
    micro_ = static_cast<double>(input.decisions.micro_batch.value_or(1));
    seq_ = static_cast<double>(input.training.seq);
    ranks_ = static_cast<double>(std::max<std::uint64_t>(input.training.gpus, 1));
  }

  std::vector<CatalogueTensor> build() {
    add_activations();
    add_states();
    add_parameters();
    return std::move(tensors_);
  }

 private:
  void add(std::string name, const char* dtype, double elements, std::string formula, double tokens_share,
           int likelihood, const char* advice) {
    const double width = std::string_view(dtype) == "fp32" ? 4 : 2;
    if (elements <= 0) return;
    formula += fmt::format(" x {} B", width);
    tensors_.push_back(
        {std::move(name), dtype, elements * width, std::move(formula), tokens_share * width, likelihood, advice});
  }

  void add_activations() {
    const Json& config = input_.model_config;
    const double vocabulary = size_of(config, {"vocab_size"});
    const double heads = size_of(
        config, {"num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "decoder_attention_heads"});
    const double ffn =
        size_of(config, {"intermediate_size", "n_inner", "d_ff", "ffn_dim", "ffn_hidden_size", "decoder_ffn_dim"});
    const auto hidden = find_hidden_size(config);
    const double tokens = micro_ * seq_;
    const bool eager = input_.training.attention == AttentionKind::kEager;
    for (const char* dtype : {"fp32", "bf16"}) {
      const bool wide = std::string_view(dtype) == "fp32";
      add("logits", dtype, tokens * vocabulary,
          fmt::format("{} x {} tokens x {} words of the vocabulary", micro_, seq_, vocabulary), vocabulary,
          wide ? 90 : 70, kLogitsAdvice);
      add("attention scores", dtype, micro_ * heads * seq_ * seq_,
          fmt::format("{} x {} heads x {} x {} tokens", micro_, heads, seq_, seq_), 0,
          (wide ? 60 : 50) + (eager ? 35 : 0), kAttentionAdvice);
      if (ffn > 0) {
        add("feed-forward activations", dtype, tokens * ffn,
            fmt::format("{} x {} tokens x {} (intermediate size)", micro_, seq_, ffn), ffn, wide ? 30 : 40,
            kActivationAdvice);
      }
      if (hidden) {
        const auto width = static_cast<double>(hidden->value);
        add("hidden states", dtype, tokens * width,
            fmt::format("{} x {} tokens x {} (hidden size)", micro_, seq_, width), width, wide ? 25 : 35,
            kActivationAdvice);
      }
    }
  }

  void add_states() {
    if (!input_.model) return;
    const auto all = static_cast<double>(input_.model->total().count());
    const auto trained = static_cast<double>(input_.model->trainable().count());
    const auto stage = input_.decisions.stage.value_or(ranks_ > 1 ? 2 : 0);
    if (ranks_ > 1) {
      const std::string share = fmt::format("{} parameters / {} ranks", trained, ranks_);
      const int sharded = stage >= 1 ? 80 : 45;
      add("fp32 master shard", "fp32", trained / ranks_, share, 0, sharded + 3, kStateAdvice);
      add("gradient shard", "fp32", trained / ranks_, share, 0, sharded - 5, kStateAdvice);
      add("16-bit weight shard", "bf16", all / ranks_, share, 0, sharded - 10, kStateAdvice);
    }
    const std::string whole = fmt::format("{} parameters", trained);
    add("fp32 master weights, unsharded", "fp32", trained, whole, 0, stage == 0 ? 75 : 44, kStateAdvice);
    add("all weights in 16 bits, one flat buffer", "bf16", all, whole, 0, 65,
        "raise the ZeRO stage to 3, or use more GPUs");
    const auto bucket = static_cast<double>(input_.decisions.reduce_bucket_size.value_or(500'000'000));
    add("gradient reduction bucket", "bf16", bucket, "reduce_bucket_size", 0, 55,
        "lower zero_optimization.reduce_bucket_size");
    add("gradient reduction bucket", "fp32", bucket, "reduce_bucket_size", 0, 54,
        "lower zero_optimization.reduce_bucket_size");
    const double group =
        std::min(static_cast<double>(input_.decisions.sub_group_size.value_or(1'000'000'000)), trained / ranks_);
    add("fp32 gradients of a sub-group in the optimizer step", "fp32", group, "sub_group_size", 0, 48,
        "lower zero_optimization.sub_group_size");
  }

  void add_parameters() {
    if (!input_.model) return;
    std::set<std::uint64_t> seen;
    for (const models::Parameter& parameter : input_.model->parameters) {
      const std::uint64_t elements = parameter.shape.elements().count();
      if (elements < 1'000'000 || !seen.insert(elements).second || seen.size() > 64) continue;
      const std::string formula = fmt::format("{} {}", parameter.name, to_string(parameter.shape));
      const char* advice =
          "raise the ZeRO stage or offload; at stage 3 gathered weights and their gradients need this much at once";
      add(fmt::format("weight {}", parameter.name), "bf16", static_cast<double>(elements), formula, 0, 46, advice);
      add(fmt::format("weight or gradient {}", parameter.name), "fp32", static_cast<double>(elements), formula, 0, 45,
          advice);
    }
  }

  const CheckInput& input_;
  double micro_ = 1;
  double seq_ = 0;
  double ranks_ = 1;
  std::vector<CatalogueTensor> tensors_;
};

}  // namespace

std::vector<CatalogueTensor> catalogue_of(const CheckInput& input) {
  return CatalogueBuilder(input).build();
}

}  // namespace zeroplan::planner::deepspeed
