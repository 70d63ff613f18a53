// The frame of a family file. Purpose: what every family reads in the same way (sizes of a decoder, which head the
// architecture has, rotary settings), and the table of families. Main types: FamilyInput, DecoderSizes, Heads. A family
// file fills a Model from a config; it must not depend on another family.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "models/family_builder.h"
#include "models/hf_config.h"
#include "models/model.h"

namespace zeroplan::models {

/// Builds the units and parameters of one family and fills in what the config says about it.
using BuildFamily = void (*)(const HfConfig& config, Model& model);

/// One family: the config's model_type, how to build it, and the dropout keys whose default is not 0.
struct Family {
  std::string_view model_type;
  BuildFamily build;
  std::string_view dropout_by_default = "";  ///< "resid_pdrop = 0.1": what an absent key means
};

/// All families, sorted by model_type.
std::span<const Family> families();
/// The family of a model_type, nullptr if there is none.
const Family* find_family(std::string_view model_type);

/// What a decoder family assumes where the config is silent. 0: kv_heads = heads, head_size = hidden / heads, ffn = 4
/// hidden.
struct DecoderDefaults {
  std::uint64_t hidden = 4096;
  std::uint64_t layers = 32;
  std::uint64_t heads = 32;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_size = 0;
  std::uint64_t ffn = 11008;
  std::uint64_t vocab = 32000;
  std::uint64_t positions = 2048;
};

/// Sizes under the usual Hugging Face keys (hidden_size, num_hidden_layers ... and GPT-2's n_embd, n_layer ...).
struct DecoderSizes {
  std::uint64_t hidden = 0;
  std::uint64_t layers = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_size = 0;
  std::uint64_t ffn = 0;
  std::uint64_t vocab = 0;
  std::uint64_t positions = 0;
  std::uint64_t query_width() const { return heads * head_size; }
  std::uint64_t kv_width() const { return kv_heads * head_size; }
};

/// \throws Error{kInvalidInput} for sizes out of range, heads that do not divide the width where head_dim is not given,
/// and key/value heads that do not divide the heads.
DecoderSizes read_decoder_sizes(const HfConfig& config, const DecoderDefaults& defaults);
/// What stands on top of a decoder, from `architectures`.
struct Heads {
  bool language_model = true;  ///< "...ForCausalLM", or no architecture named
  bool classifier = false;     ///< "...ForSequenceClassification": a score matrix [labels, hidden]
  std::uint64_t labels = 2;
  /// Names in a bare model ("LlamaModel") have no prefix.
  std::string prefix(std::string_view usual) const { return language_model || classifier ? std::string(usual) : ""; }
};
Heads read_heads(const HfConfig& config, Model& model);
/// Entries of id2label, num_labels, or 2.
std::uint64_t read_labels(const HfConfig& config);

/// A decoder as a table. Names stand behind `root` ("model."), which a bare model lacks.
struct DecoderLayout {
  std::string root = "model.";
  Modules embedding;  ///< the table of tokens first
  std::string layers = "layers";
  std::function<Modules(std::uint64_t layer)> block;
  Modules top;        ///< the final norm
  bool tied = false;  ///< head and table of tokens are one
  bool head_bias = false;
};
/// Adds units, parameters, the head that the architecture names, and the sizes of the model.
void build_decoder(const HfConfig& config, Model& model, const DecoderSizes& sizes, const DecoderLayout& layout);
/// The same block for every layer.
std::function<Modules(std::uint64_t)> same_block(Modules modules);

/// What stands on top of an encoder, from `architectures`; a config that names none is the bare model.
enum class EncoderHead {
  kBare,
  kMaskedLanguageModel,
  kSequenceClassification,
  kTokenClassification,
  kQuestionAnswering
};
/// Adds a note where the architecture's head is not known (then counted as bare).
EncoderHead read_encoder_head(const HfConfig& config, Model& model);

/// initializer_range.
double init_std(const HfConfig& config, double fallback = 0.02);

/// Query, key, value and output matrices "self_attn.q_proj", ...
struct AttentionBias {
  bool qkv = false;
  bool output = false;
};
Modules split_attention(const DecoderSizes& sizes, AttentionBias bias, const std::string& output = "o_proj");
/// "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj" of a module.
Modules gated_mlp(const std::string& module, std::uint64_t hidden, std::uint64_t ffn, bool bias = false);

/// The DecoderShape of a Llama-like family, with obstacles for what the native runtime does not compute.
DecoderShape llama_like_shape(const HfConfig& config, const DecoderSizes& sizes, Model& model);
/// Notes an obstacle "KEY is VALUE; the native runtime REASON".
void add_obstacle(const HfConfig& config, Model& model, std::string_view key, std::string_view reason);

}  // namespace zeroplan::models
