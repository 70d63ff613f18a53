// What is trained, as plain data. Purpose: from a Hugging Face config every parameter with its name, shape and ties,
// grouped into units. Main types: Parameter, TiedName, Unit, DecoderShape, Model. Must not depend on planner, kernels
// or runtime.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/json.h"
#include "models/core/shape.h"
#include "models/core/units.h"

namespace zeroplan::models {

/// How a parameter's random values are drawn.
enum class InitRule { kNormal, kOnes, kZeros };

/// One tensor of unique storage.
struct Parameter {
  std::string name;  ///< Hugging Face name, "model.layers.0.mlp.up_proj.weight"
  Shape shape;       ///< as Hugging Face stores it
  bool trainable = true;
  bool is_expert = false;  ///< belongs to one expert of a mixture
  InitRule init = InitRule::kNormal;
  double init_std = 0.02;  ///< of kNormal
  std::size_t unit = 0;    ///< index of the first unit that uses it

  /// The dotted name of the module that owns it: the name without its last part.
  std::string module() const { return name.substr(0, name.rfind('.')); }
};

/// A second name of a parameter: "lm_head.weight" of "model.embed_tokens.weight".
struct TiedName {
  std::string name;
  std::size_t parameter = 0;  ///< index into Model::parameters
  std::size_t unit = 0;       ///< index of the unit that uses it under this name
};

enum class UnitKind { kEmbedding, kBlock, kHead, kOther };

/// What is computed together and gathered together: the embedding, one block, the final norm with the head.
struct Unit {
  std::string name;  ///< "embedding", "block 7", "head"; "encoder block 3" where there are several stacks
  UnitKind kind = UnitKind::kOther;
  std::vector<std::size_t> parameters;  ///< indices into Model::parameters, those tied in from other units included
};

enum class NormKind { kLayerNorm, kRmsNorm };
enum class MlpKind { kGelu, kGatedSilu };

/// Sizes of a decoder that the native runtime trains (gpt2, llama, mistral, qwen2, qwen3).
struct DecoderShape {
  std::uint64_t hidden = 0;
  std::uint64_t layers = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_size = 0;
  std::uint64_t ffn = 0;
  std::uint64_t vocab = 0;
  std::uint64_t positions = 0;  ///< the longest sequence that the config states
  NormKind norm = NormKind::kRmsNorm;
  MlpKind mlp = MlpKind::kGatedSilu;
  bool fused_qkv = false;          ///< gpt2: one c_attn matrix
  bool weights_in_by_out = false;  ///< gpt2's Conv1D keeps [in, out], others [out, in]
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;            ///< qwen3: RMS norm of each query and key head
  bool learned_positions = false;  ///< gpt2: a position table instead of rotary
  bool tied_head = false;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  std::optional<Json> rope_scaling;  ///< the config's object (of `rope_parameters` too), its type under "rope_type"
  std::uint64_t sliding_window =
      0;  ///< tokens that a query sees; 0 = all. Longer sequences need a mask the runtime lacks
  std::uint64_t query_width() const { return heads * head_size; }
  std::uint64_t kv_width() const { return kv_heads * head_size; }
};

/// A model. Parameters come in the order of Hugging Face's named_parameters().
struct Model {
  std::string name;
  std::string family;  ///< the config's model_type
  std::string source;  ///< file or preset
  Json config;         ///< as read; enough to build the same Model again
  std::vector<Parameter> parameters;
  std::vector<TiedName> tied;
  std::vector<Unit> units;      ///< in order of the forward pass
  std::uint64_t positions = 0;  ///< longest sequence, 0 = unknown
  std::uint64_t hidden = 0;     ///< width of the residual stream, 0 = unknown
  std::uint64_t vocab = 0;      ///< 0 = no vocabulary
  std::uint64_t experts = 0;    ///< per layer; 0 = dense
  std::uint64_t experts_per_token = 0;
  DType checkpoint_dtype = DType::kFp32;  ///< the config's torch_dtype / dtype
  std::string quantisation;               ///< "awq", "gptq", "bitsandbytes", ...: the checkpoint's; empty = none
  std::optional<DecoderShape> decoder;    ///< set for the families that the native runtime trains
  /// Why the native runtime must refuse to train it although `decoder` is set: sentences, each with key and value.
  std::vector<std::string> native_obstacles;
  std::vector<std::string> notes;  ///< sentences: defaults that were assumed, dropout that is set to 0

  Elements total() const;  ///< tied tensors once
  Elements trainable() const;
  Elements with_tied_twice() const;  ///< once per name
  Elements active() const;           ///< used per token
};

}  // namespace zeroplan::models
