#include "models/native/decoder_programs.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/core/embedding_workspace.h"
#include "models/native/block_parts.h"

namespace zeroplan::models {
namespace {

std::string variant(const std::string& name, const ProgramOptions& options) {
  return options.accumulate_gradients ? name + ", adding" : name;
}

TensorPlace place_of_kept(bool kept) {
  return kept ? TensorPlace::kSaved : TensorPlace::kTemporary;
}

Operand tokens_of(UnitWriter& w) {
  return w.out().tensor("tokens", TensorPlace::kTokens, DType::kInt32, Shape{w.tokens()});
}

/// The residual between the halves of a block.
Operand middle_of(UnitWriter& w, bool kept) {
  return w.residual(place_of_kept(kept), "attention.residual");
}

/// Elements from one row of logits to the next. Matrix products on a GPU's tensor cores need rows that begin at 16
/// bytes, and vocabularies are often odd: GPT-2's has 50257 words.
std::uint64_t logits_width(const ProgramOptions& options, std::uint64_t vocab) {
  constexpr std::uint64_t kRowElements = 64;
  return options.kernels == KernelSet::kCuda ? divide_up(vocab, kRowElements) * kRowElements : vocab;
}

/// One piece of the head: logits of some rows, their loss, and with `trains` the gradients.
struct HeadPiece {
  std::uint64_t first_row;
  std::uint64_t rows;
  bool adds;  ///< to the head's weight gradient
};

void head_piece(UnitWriter& w, LinearLayer head, const HeadPiece& piece, bool trains) {
  const DecoderShape& s = w.shape();
  if (piece.rows < w.tokens())
    head.name += fmt::format(" piece {}", piece.first_row);  // pieces may need other workspaces
  const std::uint64_t most_rows = divide_up(w.tokens(), w.options().head_chunks);
  const Operand normed = w.residual(TensorPlace::kTemporary, "head.normed");
  const Operand x = ProgramWriter::rows(normed, piece.first_row, piece.rows);
  const Operand all_logits =
      w.out().temporary("head.logits", w.options().compute, Shape{most_rows, logits_width(w.options(), s.vocab)});
  const Operand logits = ProgramWriter::columns(ProgramWriter::rows(all_logits, 0, piece.rows), 0, s.vocab);
  const Operand labels = ProgramWriter::rows(
      w.out().tensor("labels", TensorPlace::kLabels, DType::kInt32, Shape{w.tokens(), 1}), piece.first_row, piece.rows);
  const Operand losses = ProgramWriter::rows(w.out().temporary("head.row losses", DType::kFp32, Shape{w.tokens(), 1}),
                                             piece.first_row, piece.rows);
  w.linear_forward(head, x, logits);
  w.out().add(OpKind::kCrossEntropy, "head.loss", {labels, logits, w.scalars()},
              {trains ? logits : ProgramWriter::none(), losses});
  if (!trains) return;
  w.linear_backward_weight(head, logits, x, piece.adds);
  const Operand d_normed = w.residual(TensorPlace::kTemporary, "head.d_normed");
  w.linear_backward_input(head, logits, ProgramWriter::rows(d_normed, piece.first_row, piece.rows), false);
}

}  // namespace

Program embedding_forward(const Model& model, std::size_t unit, const ProgramOptions& options) {
  UnitWriter w(model, unit, options, "embedding forward");
  const auto positions = w.find_optional({".wpe.weight"});
  w.out().add(OpKind::kEmbeddingForward, "embedding forward",
              {tokens_of(w), w.parameter(w.find({".embed_tokens.weight", ".wte.weight"})),
               positions ? w.parameter(*positions) : ProgramWriter::none()},
              {w.residual(TensorPlace::kOutput, "residual")});
  return w.take();
}

Program embedding_backward(const Model& model, std::size_t unit, const ProgramOptions& options) {
  UnitWriter w(model, unit, options, variant("embedding backward", options));
  const auto positions = w.find_optional({".wpe.weight"});
  std::vector<Operand> writes = {w.gradient(w.find({".embed_tokens.weight", ".wte.weight"})),
                                 positions ? w.gradient(*positions) : ProgramWriter::none()};
  const Bytes workspace = embedding_backward_workspace_bytes(w.tokens(), options.gradient);
  if (workspace > Bytes() && w.is_for_cpu()) {
    writes.push_back(w.out().temporary("embedding backward / workspace", DType::kUint8, Shape{workspace.count()}));
  }
  Op& op = w.out().add(OpKind::kEmbeddingBackward, "embedding backward",
                       {tokens_of(w), w.residual(TensorPlace::kResidualGradient, "residual gradient")}, writes);
  op.accumulate = model.decoder->tied_head || options.accumulate_gradients;  // the table
  op.accumulate_gradient = options.accumulate_gradients;                     // the positions
  return w.take();
}

Program block_forward(const Model& model, std::size_t unit, const ProgramOptions& options, bool keeps) {
  UnitWriter w(model, unit, options, keeps ? "block forward" : "block forward, keeping nothing");
  const Operand x = w.residual(TensorPlace::kInput, "residual in");
  AttentionHalf attention(w, place_of_kept(keeps),
                          place_of_kept(keeps && options.recompute != BlockRecompute::kAttentionCore));
  const Operand middle = middle_of(w, keeps);
  MlpHalf mlp(w, place_of_kept(keeps));
  attention.forward_core(x);
  attention.forward_out(x, middle);
  mlp.forward_up(middle);
  mlp.forward_down(middle, w.residual(TensorPlace::kOutput, "residual out"));
  return w.take();
}

Program block_backward(const Model& model, std::size_t unit, const ProgramOptions& options) {
  const bool recomputes = options.recompute == BlockRecompute::kEverything;
  const bool recomputes_core = options.recompute == BlockRecompute::kAttentionCore;
  UnitWriter w(model, unit, options,
               variant(recomputes        ? "block recompute and backward"
                       : recomputes_core ? "block backward, recomputing the attention core"
                                         : "block backward",
                       options));
  const Operand x = w.residual(TensorPlace::kInput, "residual in");
  const Operand gradient = w.residual(TensorPlace::kResidualGradient, "residual gradient");
  // Constructed in the order of the forward program, so that saved tensors get the same offsets.
  AttentionHalf attention(w, place_of_kept(!recomputes), place_of_kept(!recomputes && !recomputes_core));
  const Operand middle = middle_of(w, !recomputes);
  MlpHalf mlp(w, place_of_kept(!recomputes));
  if (recomputes) {
    attention.forward_core(x);
    attention.forward_out(x, middle);
    mlp.forward_up(middle);
  }
  mlp.backward(middle, gradient, recomputes);
  if (recomputes_core) attention.recompute_core();
  attention.backward(x, gradient, recomputes);
  return w.take();
}

Program head_loss(const Model& model, std::size_t unit, const ProgramOptions& options, bool trains) {
  UnitWriter w(model, unit, options, trains ? variant("head and loss", options) : "head and loss, no backward");
  const DecoderShape& s = w.shape();
  const NormLayer norm = w.norm("head.norm", {"model.norm", ".ln_f"}, s.hidden, w.tokens());
  const LinearLayer head{"head", w.find({"lm_head.weight", ".embed_tokens.weight", ".wte.weight"}), std::nullopt,
                         s.hidden, s.vocab};
  const Operand x = w.residual(TensorPlace::kInput, "residual in");
  const Operand mean = w.norm_mean(norm, TensorPlace::kTemporary, "");
  const Operand rstd = w.norm_rstd(norm, TensorPlace::kTemporary, "");
  w.norm_forward(norm, x, w.residual(TensorPlace::kTemporary, "head.normed"), mean, rstd);
  const std::uint64_t rows = divide_up(w.tokens(), options.head_chunks);
  for (std::uint64_t first = 0; first < w.tokens(); first += rows) {
    head_piece(w, head, {first, std::min(rows, w.tokens() - first), first > 0 || options.accumulate_gradients}, trains);
  }
  const Operand losses = w.out().temporary("head.row losses", DType::kFp32, Shape{w.tokens(), 1});
  w.out().add(OpKind::kLossSum, "head.loss sum", {losses, w.scalars()}, {w.scalars()});
  if (trains) {
    w.norm_backward(norm, w.residual(TensorPlace::kTemporary, "head.d_normed"), x, mean, rstd,
                    w.residual(TensorPlace::kResidualGradient, "residual gradient"), false);
  }
  return w.take();
}

}  // namespace zeroplan::models
