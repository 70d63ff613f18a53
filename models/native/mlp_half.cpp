#include "models/native/block_parts.h"

namespace zeroplan::models {

MlpHalf::MlpHalf(UnitWriter& writer, TensorPlace kept) : w_(writer), kept_(kept) {
  const DecoderShape& s = w_.shape();
  norm_ = w_.norm("mlp.norm", {".post_attention_layernorm", ".ln_2"}, s.hidden, w_.tokens());
  if (s.mlp == MlpKind::kGatedSilu) {
    gate_ = w_.linear("mlp.gate", {".mlp.gate_proj"}, s.hidden, s.ffn);
    gate_operand_ = w_.out().tensor("mlp.gate", kept_, w_.options().compute, Shape{w_.tokens(), s.ffn});
  }
  up_ = w_.linear("mlp.up", {".mlp.up_proj", ".mlp.c_fc"}, s.hidden, s.ffn);
  down_ = w_.linear("mlp.down", {".mlp.down_proj", ".mlp.c_proj"}, s.ffn, s.hidden);
  up_operand_ = w_.out().tensor("mlp.up", kept_, w_.options().compute, Shape{w_.tokens(), s.ffn});
  w_.norm_mean(norm_, kept_, "");
  w_.norm_rstd(norm_, kept_, "");
}

Operand MlpHalf::normed() {
  return w_.out().temporary("mlp.normed", w_.options().compute, Shape{w_.tokens(), w_.shape().hidden});
}

Operand MlpHalf::activated() {
  return w_.out().temporary("mlp.activated", w_.options().compute, Shape{w_.tokens(), w_.shape().ffn});
}

void MlpHalf::add_activation() {
  if (gate_) {
    w_.out().add(OpKind::kGatedSiluForward, "mlp.silu forward", {gate_operand_, up_operand_}, {activated()});
  } else {
    w_.out().add(OpKind::kGeluForward, "mlp.gelu forward", {up_operand_}, {activated()});
  }
}

void MlpHalf::forward_up(Operand middle) {
  w_.norm_forward(norm_, middle, normed(), w_.norm_mean(norm_, kept_, ""), w_.norm_rstd(norm_, kept_, ""));
  if (gate_) w_.linear_forward(*gate_, normed(), gate_operand_);
  w_.linear_forward(up_, normed(), up_operand_);
}

void MlpHalf::forward_down(Operand middle, Operand out) {
  add_activation();
  w_.linear_forward(down_, activated(), out);
  w_.out().add(OpKind::kResidualAdd, "mlp.residual", {out, middle}, {out});
}

void MlpHalf::backward(Operand middle, Operand residual_gradient, bool has_normed) {
  const DType compute = w_.options().compute;
  const Shape wide{w_.tokens(), w_.shape().ffn};
  const bool adds = w_.options().accumulate_gradients;
  add_activation();
  w_.linear_backward_weight(down_, residual_gradient, activated(), adds);
  const Operand d_activated = w_.out().temporary("mlp.d_activated", compute, wide);
  w_.linear_backward_input(down_, residual_gradient, d_activated, false);
  const Operand d_up = w_.out().temporary("mlp.d_up", compute, wide);
  const Operand d_gate = gate_ ? w_.out().temporary("mlp.d_gate", compute, wide) : ProgramWriter::none();
  if (gate_) {
    w_.out().add(OpKind::kGatedSiluBackward, "mlp.silu backward", {d_activated, gate_operand_, up_operand_},
                 {d_gate, d_up});
  } else {
    w_.out().add(OpKind::kGeluBackward, "mlp.gelu backward", {d_activated, up_operand_}, {d_up});
  }
  if (!has_normed) {
    w_.norm_forward(norm_, middle, normed(), w_.norm_mean(norm_, TensorPlace::kTemporary, " again"),
                    w_.norm_rstd(norm_, TensorPlace::kTemporary, " again"));
  }
  const Operand d_normed = w_.out().temporary("mlp.d_normed", compute, Shape{w_.tokens(), w_.shape().hidden});
  if (gate_) w_.linear_backward_weight(*gate_, d_gate, normed(), adds);
  w_.linear_backward_weight(up_, d_up, normed(), adds);
  if (gate_) w_.linear_backward_input(*gate_, d_gate, d_normed, false);
  w_.linear_backward_input(up_, d_up, d_normed, gate_.has_value());
  w_.norm_backward(norm_, d_normed, middle, w_.norm_mean(norm_, kept_, ""), w_.norm_rstd(norm_, kept_, ""),
                   residual_gradient, true);
}

}  // namespace zeroplan::models
