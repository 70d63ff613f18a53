// Operators of eager PyTorch (2.11, CUDA): what each allocates, what autograd keeps for it, and what its backward
// allocates. Read off the graph and the derivative formulas; composite library functions are composed here from the
// same operators. Sizes are in elements. Main types: AttentionCall. Depends on the tape.
#pragma once

#include <optional>

#include "simulator/profiles/eager_tape.h"
#include "simulator/profiles/sites.h"

namespace zeroplan::simulator {

/// Which tensor a pointwise operator keeps for its gradient.
enum class Keeps { kNothing, kInput, kOutput };

/// x.to(dtype): the same tensor if it has the type already. Keeps nothing.
Tensor cast(EagerTape& t, const Tensor& x, DType dtype, SiteId site);
/// x as autocast hands it to a matrix product or fused attention.
Tensor autocast_to_16bit(EagerTape& t, const Tensor& x);
/// x + y, with broadcasting and type promotion. Keeps nothing.
Tensor add(EagerTape& t, const Tensor& x, const Tensor& y, SiteId site);
/// x * y: keeps an operand where the other one needs a gradient.
Tensor multiply(EagerTape& t, const Tensor& x, const Tensor& y, SiteId site);
/// x times or plus a number, or -x. Keeps nothing.
Tensor scale(EagerTape& t, const Tensor& x, SiteId site);
Tensor add_number(EagerTape& t, const Tensor& x, SiteId site);
/// A pointwise function with a fused gradient (silu, gelu, tanh, sigmoid, relu).
Tensor pointwise(EagerTape& t, const Tensor& x, Keeps keeps, SiteId site);
/// x ** n (n > 1): keeps x; its gradient holds two more tensors while it runs.
Tensor power(EagerTape& t, const Tensor& x, SiteId site);
/// 1 / sqrt(x): keeps its output.
Tensor reciprocal_root(EagerTape& t, const Tensor& x, SiteId site);
/// Mean over the last axis to `rows` elements. Keeps nothing.
Tensor mean_rows(EagerTape& t, const Tensor& x, std::uint64_t rows, SiteId site);
/// A slice: no memory; its gradient is a whole tensor of zeros.
Tensor slice(EagerTape& t, const Tensor& x, std::uint64_t elements);
/// Splits into equal or unequal parts (views); the gradient concatenates.
std::vector<Tensor> split(EagerTape& t, const Tensor& x, const std::vector<std::uint64_t>& parts);
/// Concatenation: copies; the gradient is sliced.
Tensor concatenate(EagerTape& t, const std::vector<Tensor>& parts, SiteId site);
/// A copy into another layout (.contiguous(), a reshape that cannot be a view). Keeps nothing.
Tensor copy_layout(EagerTape& t, const Tensor& x, SiteId site);
/// Repeats along an axis by expand + reshape: a copy; the gradient is summed.
Tensor repeat(EagerTape& t, const Tensor& x, std::uint64_t times, SiteId site);

/// Inputs in three dimensions are viewed as two, so that their gradient is a view; 2-D inputs (experts) are not.
struct LinearCall {
  ParameterId weight = kNone;
  std::optional<ParameterId> bias = std::nullopt;
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  bool weight_is_transposed = true;  ///< nn.Linear keeps [out, in]; Conv1D of gpt2 [in, out]
  bool flat_input = false;           ///< the input is two-dimensional already
  bool dequantises = false;          ///< a quantised weight: expanded for each product and dropped after it
  SiteId site = kMlpHidden;
};
Tensor linear(EagerTape& t, const Tensor& x, const LinearCall& call);

/// Batched product of activations: keeps both operands. `elements` of the result.
Tensor batched_product(EagerTape& t, const Tensor& a, const Tensor& b, std::uint64_t elements, SiteId site);
/// softmax over the last axis; fp32 under autocast or when `upcast`.
Tensor softmax(EagerTape& t, const Tensor& x, bool upcast, SiteId site);
/// dropout: the same tensor for p = 0; else a new one and a mask of one byte an element.
Tensor dropout(EagerTape& t, const Tensor& x, double probability, SiteId site);

/// nn.LayerNorm: keeps its input and two fp32 statistics a row. fp32 under autocast.
Tensor layer_norm(EagerTape& t, const Tensor& x, std::uint64_t rows, std::optional<ParameterId> weight,
                  std::optional<ParameterId> bias);
/// Transformers' RMSNorm of llama and its kin: fp32 inside, weight multiplied in the input's type.
Tensor rms_norm(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight);
/// t5's: x itself is multiplied by the root, in the wider of the two types.
Tensor rms_norm_of_input(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight);
/// The variant of gemma, olmo2 and gpt_oss: the weight is multiplied in fp32, then cast. gemma adds 1 to the weight
/// first.
Tensor rms_norm_in_fp32(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight, bool one_plus);

/// cohere's: a layer norm without bias, composed in fp32.
Tensor centred_norm(EagerTape& t, const Tensor& x, std::uint64_t rows, ParameterId weight);

/// Table look-up: keeps the indices.
Tensor embedding(EagerTape& t, const Tensor& indices, ParameterId table, std::uint64_t width);

/// Sizes of one attention.
struct AttentionCall {
  std::uint64_t batch = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t queries = 0;  ///< sequence length of q
  std::uint64_t keys = 0;     ///< sequence length of k and v
  std::uint64_t head_size = 0;
  std::uint64_t value_size = 0;  ///< per head; head_size unless the family says otherwise
  bool causal = true;
  bool fused_layout = false;  ///< q, k, v are views of one projection
  double dropout = 0;
  bool softmax_in_fp32 = true;     ///< eager: the family upcasts scores
  bool scaled_in_product = false;  ///< eager: no operator of its own scales the scores (bloom)
  bool broadcasts_heads = false;   ///< fewer heads of k and v without saying so: the math path
  bool has_sinks = false;          ///< eager: one more logit a row
  Tensor mask;                     ///< eager: an additive mask, one a sequence; undefined: none
  Tensor bias;                     ///< t5's position bias, one a head for all sequences; undefined: none
};
/// scaled_dot_product_attention: one fused kernel, or the math path where no kernel takes the call.
Tensor fused_attention(EagerTape& t, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionCall& call);
/// Scores kept in memory.
Tensor eager_attention(EagerTape& t, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionCall& call);

/// cross_entropy of `logits` against int64 targets; returns the loss. `upcast`: logits.float() first, as causal models
/// do.
Tensor cross_entropy(EagerTape& t, const Tensor& logits, std::uint64_t tokens, bool upcast);

}  // namespace zeroplan::simulator
