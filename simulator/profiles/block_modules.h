// Modules of a model as the eager lowering calls them: from Hugging Face names to roles (query projection, gate, norm
// after attention). Main types: LinearModule, NormModule, BlockModules, FamilyStyle. Depends on models and the tape.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "simulator/profiles/eager_tape.h"

namespace zeroplan::simulator {

/// A linear layer. Adapter and quantisation belong to what is trained, not to the model.
struct LinearModule {
  ParameterId weight = kNone;
  ParameterId bias = kNone;
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  bool weight_is_transposed = true;
  bool quantised = false;
  ParameterId adapter_down = kNone;  ///< low-rank adapter: inputs -> rank -> outputs
  ParameterId adapter_up = kNone;
  std::uint64_t rank = 0;
  bool present() const { return weight != kNone; }
};

struct NormModule {
  ParameterId weight = kNone;
  ParameterId bias = kNone;
  bool present() const { return weight != kNone; }
};

/// Experts of one layer: two three-dimensional tensors.
struct ExpertModule {
  ParameterId gate_up = kNone;
  ParameterId down = kNone;
  std::uint64_t experts = 0;
  std::uint64_t ffn = 0;
  bool present() const { return gate_up != kNone; }
};

/// One attention: separate projections or a fused one.
struct AttentionModules {
  LinearModule q, k, v, qkv, o;
  NormModule q_norm, k_norm;
  LinearModule q_down, kv_down;  ///< latent attention (deepseek): first halves of q and of k with v
  NormModule q_down_norm, kv_down_norm;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_size = 0;
  std::uint64_t value_size = 0;
  bool present() const { return o.present(); }
};

struct MlpModules {
  LinearModule gate, up, down, gate_up;
};

/// One block. What a family lacks is absent.
struct BlockModules {
  NormModule before_attention, after_attention, before_mlp, after_mlp, before_cross;
  AttentionModules attention, cross;
  MlpModules mlp, shared;
  LinearModule router, shared_gate;
  ExpertModule experts;
  ParameterId relative_bias = kNone;
  bool decoder_of_two = false;  ///< t5's second stack: causal, with cross attention
};

/// kRmsOfInput (t5): the input in its own type is scaled, only its square is taken in fp32.
/// kCentred (cohere): as kRmsFp32, of the input less its mean, which is computed twice.
enum class NormStyle { kLayerNorm, kRms, kRmsOfInput, kRmsFp32, kRmsOnePlus, kCentred };
enum class ActivationStyle { kFusedKeepsInput, kRelu, kGeluComposite, kGeluFast, kQuickGelu };
enum class RotaryStyle { kAbsent, kFull, kPartial };

/// What a family's forward pass does that its parameters do not tell.
struct FamilyStyle {
  NormStyle norm = NormStyle::kRms;
  ActivationStyle activation = ActivationStyle::kFusedKeepsInput;
  RotaryStyle rotary = RotaryStyle::kFull;
  double rotary_fraction = 1;
  bool parallel_residual = false;    ///< attention and MLP read the same input
  bool norm_after_sublayer = false;  ///< bert: the norm follows the residual sum
  bool causal = true;
  bool copies_attention_output = false;
  bool softmax_in_fp32 = true;
  bool scaled_in_product = false;
  bool has_sinks = false;         ///< gpt_oss: one more logit a row, softmax in the type of the scores
  bool clamped_experts = false;   ///< gpt_oss: (up + 1) * gate * sigmoid(a * gate), both clamped
  bool router_in_fp32 = false;    ///< deepseek: the router reads a wide copy of its input
  bool expands_heads = false;     ///< falcon's grouped layout: k and v copied to all heads
  bool broadcasts_heads = false;  ///< falcon's multi-query layout: no fused kernel takes it
  bool eager_only = false;        ///< the library has no fused attention for it
  bool upcasts_loss = true;       ///< logits.float() before the loss
  bool scales_logits = false;     ///< cohere
  double logit_softcap = 0;
  double residual_dropout = 0;
  double attention_dropout = 0;
  double embedding_dropout = 0;
  bool casts_mlp_to_weight = false;  ///< t5: the last product's input is brought to its weight's type first
  bool scales_head_input = false;    ///< t5 with a tied head
  bool slices_qkv = false;           ///< phi3: three slices of one projection
};

/// The style of a decoder or encoder family; none if the lowering does not know how its blocks compute.
std::optional<FamilyStyle> family_style(const models::Model& model);

/// The object of a composite config that describes the language model, else the config itself.
const Json& text_config(const models::Model& model);
/// A count under the first of the keys that is there.
std::uint64_t config_count(const Json& config, std::initializer_list<std::string_view> keys, std::uint64_t fallback);

}  // namespace zeroplan::simulator
