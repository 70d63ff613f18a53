#include "models/families/families.h"

namespace zeroplan::models {

namespace {

/// pos_att_type: "p2c|c2p" or a list.
bool has_position_term(const HfConfig& config, const std::string& term) {
  if (!config.has("pos_att_type")) return false;
  const JsonView value = config.view().at("pos_att_type");
  if (value.json().is_string()) return value.as_string().find(term) != std::string::npos;
  for (std::size_t i = 0; i < value.array_size(); ++i) {
    if (value.at(i).as_string() == term) return true;
  }
  return false;
}

/// Rows of the table of relative distances: both directions of the buckets, or of the longest distance.
std::uint64_t relative_rows(const HfConfig& config, std::uint64_t positions) {
  const auto read = [&](std::string_view key) -> std::uint64_t {  // -1 means "not set"
    if (!config.has(key) || config.number({key}, -1) < 1) return 0;
    return config.width({key}, 1);
  };
  const std::uint64_t buckets = read("position_buckets");
  const std::uint64_t distance = read("max_relative_positions");
  return 2 * (buckets > 0 ? buckets : distance > 0 ? distance : positions);
}

}  // namespace

void build_deberta_v2(const HfConfig& config, Model& model) {
  const DecoderSizes s = read_decoder_sizes(
      config, {.hidden = 1536, .layers = 24, .heads = 24, .ffn = 6144, .vocab = 128100, .positions = 512});
  const EncoderHead head = read_encoder_head(config, model);
  const std::string root = head == EncoderHead::kBare ? "" : "deberta.";
  const std::uint64_t embedding_width = config.optional_width({"embedding_size"}).value_or(s.hidden);
  const std::uint64_t token_types = config.count({"type_vocab_size"}, 0);
  const std::uint64_t kernel = config.count({"conv_kernel_size"}, 0, 1024);
  const bool is_relative = config.flag({"relative_attention"}, false);
  const bool has_position_matrices = is_relative && !config.flag({"share_att_key"}, false);
  const bool has_relative_norm = config.text({"norm_rel_ebd"}, "none").find("layer_norm") != std::string::npos;

  FamilyBuilder builder(model, init_std(config));
  builder
      .unit("embedding", UnitKind::kEmbedding, root + "embeddings.",
            join({{table("word_embeddings", s.vocab, embedding_width)},
                  only_if(config.flag({"position_biased_input"}, true),
                          {table("position_embeddings", s.positions, embedding_width)}),
                  only_if(token_types > 0, {table("token_type_embeddings", token_types, embedding_width)}),
                  only_if(embedding_width != s.hidden, {linear("embed_proj", embedding_width, s.hidden)}),
                  {layer_norm("LayerNorm", s.hidden)}}))
      .blocks(root + "encoder.layer", s.layers,
              join({{linear("attention.self.query_proj", s.hidden, s.hidden, true),
                     linear("attention.self.key_proj", s.hidden, s.hidden, true),
                     linear("attention.self.value_proj", s.hidden, s.hidden, true)},
                    only_if(has_position_matrices && has_position_term(config, "c2p"),
                            {linear("attention.self.pos_key_proj", s.hidden, s.hidden, true)}),
                    only_if(has_position_matrices && has_position_term(config, "p2c"),
                            {linear("attention.self.pos_query_proj", s.hidden, s.hidden, true)}),
                    {linear("attention.output.dense", s.hidden, s.hidden, true),
                     layer_norm("attention.output.LayerNorm", s.hidden),
                     linear("intermediate.dense", s.hidden, s.ffn, true), linear("output.dense", s.ffn, s.hidden, true),
                     layer_norm("output.LayerNorm", s.hidden)}}))
      .unit("relative positions", UnitKind::kOther, root + "encoder.",
            join({only_if(is_relative, {table("rel_embeddings", relative_rows(config, s.positions), s.hidden)}),
                  only_if(has_relative_norm, {layer_norm("LayerNorm", s.hidden)}),
                  only_if(kernel > 0, {own("conv.conv", "weight", {s.hidden, s.hidden, kernel}),
                                       own("conv.conv", "bias", {s.hidden}, InitRule::kZeros),
                                       layer_norm("conv.LayerNorm", s.hidden)})}));
  if (head == EncoderHead::kSequenceClassification) {
    builder.unit(
        "head", UnitKind::kHead, "",
        {linear("pooler.dense", s.hidden, s.hidden, true), linear("classifier", s.hidden, read_labels(config), true)});
  } else if (head == EncoderHead::kTokenClassification) {
    builder.unit("head", UnitKind::kHead, "", {linear("classifier", s.hidden, read_labels(config), true)});
  } else if (head == EncoderHead::kQuestionAnswering) {
    builder.unit("head", UnitKind::kHead, "", {linear("qa_outputs", s.hidden, 2, true)});
  } else if (head == EncoderHead::kMaskedLanguageModel) {
    builder
        .unit("head", UnitKind::kHead, "cls.predictions.",
              {own("", "bias", {s.vocab}, InitRule::kZeros), linear("transform.dense", s.hidden, embedding_width, true),
               layer_norm("transform.LayerNorm", embedding_width)})
        .tie("cls.predictions.decoder.weight", root + "embeddings.word_embeddings.weight", "head")
        .tie("cls.predictions.decoder.bias", "cls.predictions.bias", "head");
  }
  model.hidden = s.hidden;
  model.vocab = s.vocab;
  model.positions = s.positions;
}

}  // namespace zeroplan::models
