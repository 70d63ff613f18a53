#include "models/core/attention_workspace.h"
#include "models/native/block_parts.h"

namespace zeroplan::models {
namespace {

/// Causal attention: each token sees half of the sequence on average, so QK^T and PV take 2 x 2 x s/2 x width FLOPs a
/// token.
Flops causal_attention_flops(const UnitWriter& w) {
  return Flops(
      zeroplan::detail::checked_mul(2, Shape{w.tokens(), w.options().seq, w.shape().query_width()}.elements().count()));
}

}  // namespace

AttentionHalf::AttentionHalf(UnitWriter& writer, TensorPlace kept, TensorPlace core)
    : w_(writer), kept_(kept), core_(core) {
  const DecoderShape& s = w_.shape();
  const std::uint64_t q = s.query_width();
  const std::uint64_t kv = s.kv_width();
  norm_ = w_.norm("attention.norm", {".input_layernorm", ".ln_1"}, s.hidden, w_.tokens());
  o_ = w_.linear("attention.proj", {".self_attn.o_proj", ".attn.c_proj"}, q, s.hidden);
  const DType compute = w_.options().compute;
  if (s.fused_qkv) {
    qkv_ = w_.linear("attention.qkv", {".attn.c_attn"}, s.hidden, q + 2 * kv);
    fused_ = w_.out().tensor("attention.qkv", kept_, compute, Shape{w_.tokens(), q + 2 * kv});
    raw_q_ = ProgramWriter::columns(fused_, 0, q);
    raw_k_ = ProgramWriter::columns(fused_, q, kv);
    v_operand_ = ProgramWriter::columns(fused_, q + kv, kv);
  } else {
    q_ = w_.linear("attention.q", {".self_attn.q_proj"}, s.hidden, q);
    k_ = w_.linear("attention.k", {".self_attn.k_proj"}, s.hidden, kv);
    v_ = w_.linear("attention.v", {".self_attn.v_proj"}, s.hidden, kv);
    raw_q_ = w_.out().tensor("attention.q", kept_, compute, Shape{w_.tokens(), q});
    raw_k_ = w_.out().tensor("attention.k", kept_, compute, Shape{w_.tokens(), kv});
    v_operand_ = w_.out().tensor("attention.v", kept_, compute, Shape{w_.tokens(), kv});
  }
  q_operand_ = raw_q_;
  k_operand_ = raw_k_;
  if (s.qk_norm) {
    q_norm_ = w_.norm("attention.q_norm", {".self_attn.q_norm"}, s.head_size, w_.tokens() * s.heads);
    k_norm_ = w_.norm("attention.k_norm", {".self_attn.k_norm"}, s.head_size, w_.tokens() * s.kv_heads);
    w_.norm_rstd(*q_norm_, kept_, "");
    w_.norm_rstd(*k_norm_, kept_, "");
    q_operand_ = heads("attention.q normed", q);
    k_operand_ = heads("attention.k normed", kv);
  }
  w_.norm_mean(norm_, kept_, "");
  w_.norm_rstd(norm_, kept_, "");
  attention_out_ = w_.out().tensor("attention.out", core_, compute, Shape{w_.tokens(), q});
  lse_ = w_.out().tensor("attention.lse", core_, DType::kFp32, Shape{w_.tokens(), s.heads});
}

Operand AttentionHalf::heads(const std::string& name, std::uint64_t width) {
  return w_.out().temporary(name, w_.options().compute, Shape{w_.tokens(), width});
}

Operand AttentionHalf::normed() {
  return heads("attention.normed", w_.shape().hidden);
}

void AttentionHalf::rotate_and_norm(bool again) {
  const DecoderShape& s = w_.shape();
  const TensorPlace place = again ? TensorPlace::kTemporary : kept_;
  const std::string suffix = again ? " again" : "";
  if (q_norm_) {
    w_.norm_forward(*q_norm_, raw_q_, q_operand_, ProgramWriter::none(), w_.norm_rstd(*q_norm_, place, suffix));
    w_.norm_forward(*k_norm_, raw_k_, k_operand_, ProgramWriter::none(), w_.norm_rstd(*k_norm_, place, suffix));
  }
  if (s.learned_positions) return;
  const Operand table =
      w_.out().tensor("rotary table", TensorPlace::kRotaryTable, DType::kFp32, Shape{w_.options().seq, s.head_size});
  w_.out().add(OpKind::kRotaryForward, "attention.q rotary", {table, q_operand_}, {q_operand_});
  w_.out().add(OpKind::kRotaryForward, "attention.k rotary", {table, k_operand_}, {k_operand_});
}

Operand AttentionHalf::backward_workspace() {
  const DecoderShape& s = w_.shape();
  const Bytes bytes = attention_backward_workspace_bytes(w_.tokens(), s.heads, s.head_size, w_.options().compute);
  if (bytes == Bytes() || !w_.is_for_cpu()) return ProgramWriter::none();
  return w_.out().temporary("attention.core backward / workspace", DType::kUint8, Shape{bytes.count()});
}

void AttentionHalf::add_attention() {
  w_.out().add(OpKind::kAttentionForward, "attention.core forward", {q_operand_, k_operand_, v_operand_},
               {attention_out_, lse_}, causal_attention_flops(w_));
}

void AttentionHalf::forward_core(Operand x) {
  w_.norm_forward(norm_, x, normed(), w_.norm_mean(norm_, kept_, ""), w_.norm_rstd(norm_, kept_, ""));
  if (qkv_) {
    w_.linear_forward(*qkv_, normed(), fused_);
  } else {
    w_.linear_forward(*q_, normed(), raw_q_);
    w_.linear_forward(*k_, normed(), raw_k_);
    w_.linear_forward(*v_, normed(), v_operand_);
  }
  rotate_and_norm(false);
  add_attention();
}

void AttentionHalf::forward_out(Operand x, Operand middle) {
  w_.linear_forward(o_, attention_out_, middle);
  w_.out().add(OpKind::kResidualAdd, "attention.residual", {middle, x}, {middle});
}

void AttentionHalf::recompute_core() {
  if (q_norm_) rotate_and_norm(true);
  add_attention();
}

void AttentionHalf::backward(Operand x, Operand residual_gradient, bool has_normed) {
  const DecoderShape& s = w_.shape();
  const bool adds = w_.options().accumulate_gradients;
  const std::uint64_t q = s.query_width();
  const std::uint64_t kv = s.kv_width();
  if (q_norm_ && !has_normed && core_ == TensorPlace::kSaved) rotate_and_norm(true);
  const Operand d_out = heads("attention.d_out", q);
  w_.linear_backward_weight(o_, residual_gradient, attention_out_, adds);
  w_.linear_backward_input(o_, residual_gradient, d_out, false);

  const Operand d_fused = s.fused_qkv ? heads("attention.d_qkv", q + 2 * kv) : ProgramWriter::none();
  const Operand d_q = s.fused_qkv ? ProgramWriter::columns(d_fused, 0, q) : heads("attention.d_q", q);
  const Operand d_k = s.fused_qkv ? ProgramWriter::columns(d_fused, q, kv) : heads("attention.d_k", kv);
  const Operand d_v = s.fused_qkv ? ProgramWriter::columns(d_fused, q + kv, kv) : heads("attention.d_v", kv);
  const Operand workspace = backward_workspace();
  const Flops flops(causal_attention_flops(w_).count() / 2 *
                    5);  // the scores are computed again: 2.5 times the forward pass
  w_.out().add(OpKind::kAttentionBackward, "attention.core backward",
               {d_out, q_operand_, k_operand_, v_operand_, attention_out_, lse_}, {d_q, d_k, d_v, workspace}, flops);
  if (!s.learned_positions) {
    const Operand table =
        w_.out().tensor("rotary table", TensorPlace::kRotaryTable, DType::kFp32, Shape{w_.options().seq, s.head_size});
    w_.out().add(OpKind::kRotaryBackward, "attention.d_q rotary", {table, d_q}, {d_q});
    w_.out().add(OpKind::kRotaryBackward, "attention.d_k rotary", {table, d_k}, {d_k});
  }
  Operand d_raw_q = d_q;
  Operand d_raw_k = d_k;
  if (q_norm_) {
    d_raw_q = heads("attention.d_q raw", q);
    d_raw_k = heads("attention.d_k raw", kv);
    w_.norm_backward(*q_norm_, d_q, raw_q_, ProgramWriter::none(), w_.norm_rstd(*q_norm_, kept_, ""), d_raw_q, false);
    w_.norm_backward(*k_norm_, d_k, raw_k_, ProgramWriter::none(), w_.norm_rstd(*k_norm_, kept_, ""), d_raw_k, false);
  }
  if (!has_normed) {
    w_.norm_forward(norm_, x, normed(), w_.norm_mean(norm_, TensorPlace::kTemporary, " again"),
                    w_.norm_rstd(norm_, TensorPlace::kTemporary, " again"));
  }
  const Operand d_normed = heads("attention.d_normed", s.hidden);
  if (qkv_) {
    w_.linear_backward_weight(*qkv_, d_fused, normed(), adds);
    w_.linear_backward_input(*qkv_, d_fused, d_normed, false);
  } else {
    w_.linear_backward_weight(*q_, d_raw_q, normed(), adds);
    w_.linear_backward_weight(*k_, d_raw_k, normed(), adds);
    w_.linear_backward_weight(*v_, d_v, normed(), adds);
    w_.linear_backward_input(*q_, d_raw_q, d_normed, false);
    w_.linear_backward_input(*k_, d_raw_k, d_normed, true);
    w_.linear_backward_input(*v_, d_v, d_normed, true);
  }
  w_.norm_backward(norm_, d_normed, x, w_.norm_mean(norm_, kept_, ""), w_.norm_rstd(norm_, kept_, ""),
                   residual_gradient, true);
}

}  // namespace zeroplan::models
