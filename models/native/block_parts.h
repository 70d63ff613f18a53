// The two halves of a block, attention and MLP: forward, what they save, and backward. Main types: AttentionHalf,
// MlpHalf. Both add to the residual stream: out = in + f(norm(in)). Their backward passes turn the residual gradient in
// place.
#pragma once

#include "models/native/unit_writer.h"

namespace zeroplan::models {

/// Norm, projections, rotary positions, causal attention, output projection.
class AttentionHalf {
 public:
  /// \param kept  place of what the backward pass needs: kSaved, or kTemporary where it is computed again
  /// \param core  place of the attention's output and log-sum-exp
  AttentionHalf(UnitWriter& writer, TensorPlace kept, TensorPlace core);

  /// Up to and with the attention's output, from the unit's input.
  void forward_core(Operand x);
  /// The output projection and the residual: `middle` = x + projection.
  void forward_out(Operand x, Operand middle);
  /// Only the core, from saved projections (selective recompute).
  void recompute_core();
  /// \param x  the unit's input
  /// \param has_normed  true if forward_core ran in this program, so that its temporaries are there
  void backward(Operand x, Operand residual_gradient, bool has_normed);

 private:
  Operand normed();
  Operand heads(const std::string& name, std::uint64_t width);
  /// Queries and keys as the attention reads them: after norm and rotary. `again`: from saved projections.
  void rotate_and_norm(bool again);
  Operand backward_workspace();
  void add_attention();

  UnitWriter& w_;
  TensorPlace kept_;
  TensorPlace core_;
  NormLayer norm_;
  std::optional<NormLayer> q_norm_, k_norm_;
  std::optional<LinearLayer> qkv_, q_, k_, v_;
  LinearLayer o_;
  Operand raw_q_, raw_k_, v_operand_;  ///< projections
  Operand q_operand_, k_operand_;      ///< as the attention reads them
  Operand fused_;                      ///< gpt2: [T, 3h]
  Operand attention_out_, lse_;
};

/// Norm, up projection(s), activation, down projection.
class MlpHalf {
 public:
  MlpHalf(UnitWriter& writer, TensorPlace kept);

  /// Up to the pre-activations.
  void forward_up(Operand middle);
  /// Activation, down projection and residual: `out` = middle + down.
  void forward_down(Operand middle, Operand out);
  void backward(Operand middle, Operand residual_gradient, bool has_normed);

 private:
  Operand normed();
  Operand activated();
  void add_activation();

  UnitWriter& w_;
  TensorPlace kept_;
  NormLayer norm_;
  std::optional<LinearLayer> gate_;
  LinearLayer up_, down_;
  Operand gate_operand_, up_operand_;
};

}  // namespace zeroplan::models
