#include "models/families/families.h"

namespace zeroplan::models {

void build_albert(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 4096, .layers = 12, .heads = 64, .ffn = 16384, .vocab = 30000, .positions = 512});
  const std::uint64_t width = config.width({"embedding_size"}, 128);
  const std::uint64_t groups = config.layers({"num_hidden_groups"}, 1);
  const std::uint64_t inner = config.layers({"inner_group_num"}, 1);
  const EncoderHead head = read_encoder_head(config, model);
  const std::string root = head == EncoderHead::kBare ? "" : "albert.";

  FamilyBuilder builder(model, init_std(config));
  builder.unit(
      "embedding", UnitKind::kEmbedding, root,
      {table("embeddings.word_embeddings", s.vocab, width), table("embeddings.position_embeddings", s.positions, width),
       table("embeddings.token_type_embeddings", config.width({"type_vocab_size"}, 2), width),
       layer_norm("embeddings.LayerNorm", width),
       linear("encoder.embedding_hidden_mapping_in", width, s.hidden, true)});
  // Layers share the weights of their group: one unit for each block that is stored, not for each that is run.
  for (std::uint64_t i = 0; i < groups * inner; ++i) {
    builder.unit(
        "block " + std::to_string(i), UnitKind::kBlock,
        root + "encoder.albert_layer_groups." + std::to_string(i / inner) + ".albert_layers." +
            std::to_string(i % inner) + ".",
        {layer_norm("full_layer_layer_norm", s.hidden), linear("attention.query", s.hidden, s.hidden, true),
         linear("attention.key", s.hidden, s.hidden, true), linear("attention.value", s.hidden, s.hidden, true),
         linear("attention.dense", s.hidden, s.hidden, true), layer_norm("attention.LayerNorm", s.hidden),
         linear("ffn", s.hidden, s.ffn, true), linear("ffn_output", s.ffn, s.hidden, true)});
  }
  model.notes.push_back("layers share weights: " + std::to_string(s.layers) + " layers run, " +
                        std::to_string(groups * inner) + " are stored");
  if (head == EncoderHead::kBare || head == EncoderHead::kSequenceClassification) {
    builder.unit("head", UnitKind::kHead, root, {linear("pooler", s.hidden, s.hidden, true)});
  }
  if (head == EncoderHead::kSequenceClassification || head == EncoderHead::kTokenClassification) {
    builder.unit("head", UnitKind::kHead, "", {linear("classifier", s.hidden, read_labels(config), true)});
  } else if (head == EncoderHead::kQuestionAnswering) {
    builder.unit("head", UnitKind::kHead, "", {linear("qa_outputs", s.hidden, 2, true)});
  } else if (head == EncoderHead::kMaskedLanguageModel) {
    builder
        .unit("head", UnitKind::kHead, "predictions.",
              {own("", "bias", {s.vocab}, InitRule::kZeros), layer_norm("LayerNorm", width),
               linear("dense", s.hidden, width, true)})
        .tie("predictions.decoder.weight", root + "embeddings.word_embeddings.weight", "head")
        .tie("predictions.decoder.bias", "predictions.bias", "head");
  }
  model.hidden = s.hidden;
  model.vocab = s.vocab;
  model.positions = s.positions;
}

}  // namespace zeroplan::models
