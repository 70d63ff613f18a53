#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// BERT and RoBERTa: equal but for defaults, names in front and heads.
struct BertVariant {
  std::string root;
  DecoderDefaults defaults;
  std::uint64_t token_types = 2;
  bool is_roberta = false;
};

void add_head(FamilyBuilder& builder, EncoderHead head, const BertVariant& variant, const DecoderSizes& s,
              std::uint64_t labels, const std::string& root) {
  const auto add = [&](const std::string& prefix, const Modules& modules) {
    builder.unit("head", UnitKind::kHead, prefix, modules);
  };
  const bool is_classifier = head == EncoderHead::kSequenceClassification;
  if (head == EncoderHead::kBare || (is_classifier && !variant.is_roberta)) {
    add(root, {linear("pooler.dense", s.hidden, s.hidden, true)});
  }
  if (is_classifier && variant.is_roberta) {
    add("classifier.", {linear("dense", s.hidden, s.hidden, true), linear("out_proj", s.hidden, labels, true)});
  } else if (is_classifier || head == EncoderHead::kTokenClassification) {
    add("", {linear("classifier", s.hidden, labels, true)});
  } else if (head == EncoderHead::kQuestionAnswering) {
    add("", {linear("qa_outputs", s.hidden, 2, true)});
  } else if (head == EncoderHead::kMaskedLanguageModel) {
    const std::string prefix = variant.is_roberta ? "lm_head." : "cls.predictions.";
    const std::string transform = variant.is_roberta ? "" : "transform.";
    add(prefix, {own("", "bias", {s.vocab}, InitRule::kZeros), linear(transform + "dense", s.hidden, s.hidden, true),
                 layer_norm(transform + (variant.is_roberta ? "layer_norm" : "LayerNorm"), s.hidden)});
    builder.tie(prefix + "decoder.weight", root + "embeddings.word_embeddings.weight", "head")
        .tie(prefix + "decoder.bias", prefix + "bias", "head");
  }
}

void build_bert(const HfConfig& config, Model& model, const BertVariant& variant) {
  const DecoderSizes s = read_decoder_sizes(config, variant.defaults);
  const EncoderHead head = read_encoder_head(config, model);
  const std::string root = head == EncoderHead::kBare ? "" : variant.root;
  const Module words = table("word_embeddings", s.vocab, s.hidden);
  const Module positions = table("position_embeddings", s.positions, s.hidden);
  const Module types = table("token_type_embeddings", config.width({"type_vocab_size"}, variant.token_types), s.hidden);
  const Module norm = layer_norm("LayerNorm", s.hidden);

  FamilyBuilder builder(model, init_std(config));
  builder
      .unit("embedding", UnitKind::kEmbedding, root + "embeddings.",
            variant.is_roberta ? Modules{words, types, norm, positions} : Modules{words, positions, types, norm})
      .blocks(root + "encoder.layer", s.layers,
              {linear("attention.self.query", s.hidden, s.hidden, true),
               linear("attention.self.key", s.hidden, s.hidden, true),
               linear("attention.self.value", s.hidden, s.hidden, true),
               linear("attention.output.dense", s.hidden, s.hidden, true),
               layer_norm("attention.output.LayerNorm", s.hidden), linear("intermediate.dense", s.hidden, s.ffn, true),
               linear("output.dense", s.ffn, s.hidden, true), layer_norm("output.LayerNorm", s.hidden)});
  add_head(builder, head, variant, s, read_labels(config), root);
  model.hidden = s.hidden;
  model.vocab = s.vocab;
  model.positions = s.positions;
}

}  // namespace

void build_bert(const HfConfig& config, Model& model) {
  build_bert(config, model,
             {.root = "bert.",
              .defaults = {.hidden = 768, .layers = 12, .heads = 12, .ffn = 3072, .vocab = 30522, .positions = 512}});
}

void build_roberta(const HfConfig& config, Model& model) {
  build_bert(config, model,
             {.root = "roberta.",
              .defaults = {.hidden = 768, .layers = 12, .heads = 12, .ffn = 3072, .vocab = 50265, .positions = 512},
              .is_roberta = true});
}

}  // namespace zeroplan::models
