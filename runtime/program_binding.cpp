#include "runtime/program_binding.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "runtime/operand_view.h"

namespace zeroplan::runtime {
namespace {

using models::Op;
using models::OpKind;

/// Turns ops into calls; one for each compute task.
class ProgramBinder {
 public:
  ProgramBinder(const planner::Plan& plan, const planner::Task& task, const Arenas& arenas)
      : plan_(plan), shape_(plan.model.decoder.value()), views_(plan, task, arenas) {
    const auto& work = std::get<planner::ComputeWork>(task.work);
    is_for_cpu_ = plan.training.backend == planner::BackendKind::kCpu;
    // Heads are kept as [words, width] in every family, whatever the layout of the blocks' weights.
    const bool is_head = plan.model.units.at(work.unit).kind == models::UnitKind::kHead;
    layout_ = shape_.weights_in_by_out && !is_head ? WeightLayout::kInOut : WeightLayout::kOutIn;
  }

  BoundOp bind(const Op& op) const {
    switch (op.kind) {
      case OpKind::kEmbeddingForward:
        return embedding_forward(op);
      case OpKind::kEmbeddingBackward:
        return embedding_backward(op);
      case OpKind::kLayerNormForward:
        return layer_norm_forward(op);
      case OpKind::kLayerNormBackward:
        return layer_norm_backward(op);
      case OpKind::kRmsNormForward:
        return rms_norm_forward(op);
      case OpKind::kRmsNormBackward:
        return rms_norm_backward(op);
      case OpKind::kLinearForward:
        return linear_forward(op);
      case OpKind::kLinearBackwardInput:
        return linear_backward_input(op);
      case OpKind::kLinearBackwardWeight:
        return linear_backward_weight(op);
      case OpKind::kRotaryForward:
        return rotary(op, false);
      case OpKind::kRotaryBackward:
        return rotary(op, true);
      case OpKind::kAttentionForward:
        return attention_forward(op);
      case OpKind::kAttentionBackward:
        return attention_backward(op);
      case OpKind::kGeluForward:
        return gelu_forward(op);
      case OpKind::kGeluBackward:
        return gelu_backward(op);
      case OpKind::kGatedSiluForward:
        return gated_silu_forward(op);
      case OpKind::kGatedSiluBackward:
        return gated_silu_backward(op);
      case OpKind::kResidualAdd:
        return residual_add(op);
      case OpKind::kCrossEntropy:
        return cross_entropy(op);
      case OpKind::kLossSum:
        return loss_sum(op);
    }
    throw Error(ErrorCode::kInternal, fmt::format("op {} has no kernel", op.name));
  }

  /// What a GPU's kernel may write besides its results: the last operand, where the planner gave it one.
  ClearedRange scratch(const Op& op) const {
    if (is_for_cpu_ || op.writes.empty() || !views_.is_scratch(op.writes.back())) return {};
    const OperandView view = views_.view(op.writes.back());
    return {view.data, static_cast<std::size_t>(view.bytes().count())};
  }

 private:
  OperandView read(const Op& op, std::size_t i) const {
    return i < op.reads.size() ? views_.view(op.reads[i]) : OperandView();
  }
  OperandView write(const Op& op, std::size_t i) const {
    return i < op.writes.size() ? views_.view(op.writes[i]) : OperandView();
  }
  std::size_t seq() const { return plan_.training.seq; }

  /// The scratch of an op, of at least `needed` bytes.
  void* workspace(const Op& op, const OperandView& view, Bytes needed) const {
    if (!is_for_cpu_) return nullptr;
    if (needed > Bytes() && (view.data == nullptr || view.bytes() < needed)) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("op {} has {} bytes of workspace, its kernel needs {}", op.name,
                                                        view.bytes().count(), needed.count()))
          .hint("the plan was made by another version of zeroplan: make it again");
    }
    return view.data;
  }

  BoundOp embedding_forward(const Op& op) const {
    const OperandView out = write(op, 0);
    return kernels::EmbeddingForward{.dtype = out.dtype,
                                     .tokens = out.rows,
                                     .width = out.columns,
                                     .sequence_length = seq(),
                                     .ids = read(op, 0).as<std::int32_t>(),
                                     .token_table = read(op, 1).data,
                                     .position_table = read(op, 2).data,
                                     .out = out.data};
  }

  BoundOp embedding_backward(const Op& op) const {
    const OperandView d_out = read(op, 1);
    const OperandView table = write(op, 0);
    const OperandView positions = write(op, 1);
    return kernels::EmbeddingBackward{
        .dtype = d_out.dtype,
        .gradient_dtype = table.dtype,
        .tokens = d_out.rows,
        .width = d_out.columns,
        .sequence_length = seq(),
        .vocabulary = table.rows,
        .positions = positions.rows,
        .ids = read(op, 0).as<std::int32_t>(),
        .d_out = d_out.data,
        .d_token_table = table.data,
        .d_position_table = positions.data,
        .accumulate = op.accumulate,
        .accumulate_position = op.accumulate_gradient,
        .workspace = workspace(op, write(op, 2), embedding_backward_workspace_bytes(d_out.rows, table.dtype))};
  }

  BoundOp layer_norm_forward(const Op& op) const {
    const OperandView x = read(op, 0);
    const std::size_t width = read(op, 1).elements();
    return kernels::LayerNormForward{.dtype = x.dtype,
                                     .rows = x.elements() / width,
                                     .width = width,
                                     .epsilon = shape_.norm_epsilon,
                                     .x = x.data,
                                     .weight = read(op, 1).data,
                                     .bias = read(op, 2).data,
                                     .y = write(op, 0).data,
                                     .mean = write(op, 1).as<float>(),
                                     .rstd = write(op, 2).as<float>()};
  }

  BoundOp layer_norm_backward(const Op& op) const {
    const OperandView x = read(op, 1);
    const OperandView d_weight = write(op, 1);
    const std::size_t width = d_weight.elements();
    return kernels::LayerNormBackward{.dtype = x.dtype,
                                      .gradient_dtype = d_weight.dtype,
                                      .rows = x.elements() / width,
                                      .width = width,
                                      .d_y = read(op, 0).data,
                                      .x = x.data,
                                      .weight = read(op, 2).data,
                                      .mean = read(op, 3).as<float>(),
                                      .rstd = read(op, 4).as<float>(),
                                      .d_x = write(op, 0).data,
                                      .d_weight = d_weight.data,
                                      .d_bias = write(op, 2).data,
                                      .accumulate = op.accumulate,
                                      .accumulate_gradient = op.accumulate_gradient};
  }

  BoundOp rms_norm_forward(const Op& op) const {
    const OperandView x = read(op, 0);
    const std::size_t width = read(op, 1).elements();
    return kernels::RmsNormForward{.dtype = x.dtype,
                                   .rows = x.elements() / width,
                                   .width = width,
                                   .epsilon = shape_.norm_epsilon,
                                   .x = x.data,
                                   .weight = read(op, 1).data,
                                   .y = write(op, 0).data,
                                   .rstd = write(op, 1).as<float>()};
  }

  BoundOp rms_norm_backward(const Op& op) const {
    const OperandView x = read(op, 1);
    const OperandView d_weight = write(op, 1);
    const std::size_t width = d_weight.elements();
    return kernels::RmsNormBackward{.dtype = x.dtype,
                                    .gradient_dtype = d_weight.dtype,
                                    .rows = x.elements() / width,
                                    .width = width,
                                    .d_y = read(op, 0).data,
                                    .x = x.data,
                                    .weight = read(op, 2).data,
                                    .rstd = read(op, 3).as<float>(),
                                    .d_x = write(op, 0).data,
                                    .d_weight = d_weight.data,
                                    .accumulate = op.accumulate,
                                    .accumulate_gradient = op.accumulate_gradient};
  }

  BoundOp linear_forward(const Op& op) const {
    const OperandView x = read(op, 0);
    const OperandView y = write(op, 0);
    return kernels::LinearForward{
        .dtype = x.dtype,
        .layout = layout_,
        .tokens = x.rows,
        .in = x.columns,
        .out = y.columns,
        .x = x.data,
        .x_stride = x.stride,
        .weight = read(op, 1).data,
        .bias = read(op, 2).data,
        .y = y.data,
        .y_stride = y.stride,
        .accumulate = op.accumulate,
        .workspace =
            workspace(op, write(op, 1), linear_forward_workspace_bytes(x.rows, x.columns, y.columns, y.dtype))};
  }

  BoundOp linear_backward_input(const Op& op) const {
    const OperandView d_y = read(op, 0);
    const OperandView d_x = write(op, 0);
    return kernels::LinearBackwardInput{
        .dtype = d_y.dtype,
        .layout = layout_,
        .tokens = d_y.rows,
        .in = d_x.columns,
        .out = d_y.columns,
        .d_y = d_y.data,
        .d_y_stride = d_y.stride,
        .weight = read(op, 1).data,
        .d_x = d_x.data,
        .d_x_stride = d_x.stride,
        .accumulate = op.accumulate,
        .workspace = workspace(op, write(op, 1),
                               linear_backward_input_workspace_bytes(d_y.rows, d_x.columns, d_y.columns, d_x.dtype))};
  }

  BoundOp linear_backward_weight(const Op& op) const {
    const OperandView d_y = read(op, 0);
    const OperandView x = read(op, 1);
    const OperandView d_weight = write(op, 0);
    return kernels::LinearBackwardWeight{
        .dtype = d_y.dtype,
        .gradient_dtype = d_weight.dtype,
        .layout = layout_,
        .tokens = d_y.rows,
        .in = x.columns,
        .out = d_y.columns,
        .d_y = d_y.data,
        .d_y_stride = d_y.stride,
        .x = x.data,
        .x_stride = x.stride,
        .d_weight = d_weight.data,
        .d_bias = write(op, 1).data,
        .accumulate = op.accumulate_gradient,
        .accumulate_bias = op.accumulate_gradient,
        .workspace = workspace(
            op, write(op, 2),
            linear_backward_weight_workspace_bytes(d_y.rows, x.columns, d_y.columns, layout_, d_weight.dtype))};
  }

  BoundOp rotary(const Op& op, bool inverse) const {
    const OperandView x = write(op, 0);
    return kernels::Rotary{.dtype = x.dtype,
                           .tokens = x.rows,
                           .heads = x.columns / shape_.head_size,
                           .head_size = shape_.head_size,
                           .sequence_length = seq(),
                           .table = read(op, 0).as<float>(),
                           .x = x.data,
                           .x_stride = x.stride,
                           .inverse = inverse};
  }

  kernels::AttentionShape attention_shape(DType dtype) const {
    return {.dtype = dtype,
            .sequences = plan_.strategy.micro_batch,
            .sequence_length = seq(),
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .head_size = shape_.head_size,
            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape_.head_size))),
            .window = shape_.sliding_window < seq() ? shape_.sliding_window : 0};
  }

  BoundOp attention_forward(const Op& op) const {
    const OperandView q = read(op, 0);
    const OperandView k = read(op, 1);
    const OperandView v = read(op, 2);
    const OperandView out = write(op, 0);
    return kernels::AttentionForward{.shape = attention_shape(q.dtype),
                                     .q = q.data,
                                     .q_stride = q.stride,
                                     .k = k.data,
                                     .k_stride = k.stride,
                                     .v = v.data,
                                     .v_stride = v.stride,
                                     .out = out.data,
                                     .out_stride = out.stride,
                                     .lse = write(op, 1).as<float>()};
  }

  BoundOp attention_backward(const Op& op) const {
    const OperandView d_out = read(op, 0);
    const OperandView q = read(op, 1);
    const OperandView k = read(op, 2);
    const OperandView v = read(op, 3);
    const OperandView out = read(op, 4);
    const OperandView d_q = write(op, 0);
    const OperandView d_k = write(op, 1);
    const OperandView d_v = write(op, 2);
    return kernels::AttentionBackward{
        .shape = attention_shape(q.dtype),
        .d_out = d_out.data,
        .d_out_stride = d_out.stride,
        .q = q.data,
        .q_stride = q.stride,
        .k = k.data,
        .k_stride = k.stride,
        .v = v.data,
        .v_stride = v.stride,
        .out = out.data,
        .out_stride = out.stride,
        .lse = read(op, 5).as<float>(),
        .d_q = d_q.data,
        .d_q_stride = d_q.stride,
        .d_k = d_k.data,
        .d_k_stride = d_k.stride,
        .d_v = d_v.data,
        .d_v_stride = d_v.stride,
        .workspace = workspace(op, write(op, 3),
                               attention_backward_workspace_bytes(q.rows, shape_.heads, shape_.head_size, q.dtype))};
  }

  BoundOp gelu_forward(const Op& op) const {
    const OperandView x = read(op, 0);
    return kernels::GeluForward{.dtype = x.dtype, .count = x.elements(), .x = x.data, .y = write(op, 0).data};
  }

  BoundOp gelu_backward(const Op& op) const {
    const OperandView x = read(op, 1);
    return kernels::GeluBackward{
        .dtype = x.dtype, .count = x.elements(), .d_y = read(op, 0).data, .x = x.data, .d_x = write(op, 0).data};
  }

  BoundOp gated_silu_forward(const Op& op) const {
    const OperandView gate = read(op, 0);
    return kernels::GatedSiluForward{.dtype = gate.dtype,
                                     .count = gate.elements(),
                                     .gate = gate.data,
                                     .up = read(op, 1).data,
                                     .y = write(op, 0).data};
  }

  BoundOp gated_silu_backward(const Op& op) const {
    const OperandView gate = read(op, 1);
    return kernels::GatedSiluBackward{.dtype = gate.dtype,
                                      .count = gate.elements(),
                                      .d_y = read(op, 0).data,
                                      .gate = gate.data,
                                      .up = read(op, 2).data,
                                      .d_gate = write(op, 0).data,
                                      .d_up = write(op, 1).data};
  }

  BoundOp residual_add(const Op& op) const {
    const OperandView out = write(op, 0);
    return kernels::Add{
        .dtype = out.dtype, .count = out.elements(), .a = read(op, 0).data, .b = read(op, 1).data, .out = out.data};
  }

  BoundOp cross_entropy(const Op& op) const {
    const OperandView logits = read(op, 1);
    return kernels::CrossEntropy{.dtype = logits.dtype,
                                 .rows = logits.rows,
                                 .vocabulary = logits.columns,
                                 .labels = read(op, 0).as<std::int32_t>(),
                                 .logits = logits.data,
                                 .logits_stride = logits.stride,
                                 .row_losses = write(op, 1).as<float>(),
                                 .scalars = read(op, 2).as<kernels::StepScalars>(),
                                 .backward = op.writes.at(0).tensor != models::kNoTensor};
  }

  BoundOp loss_sum(const Op& op) const {
    const OperandView losses = read(op, 0);
    return kernels::LossSum{
        .rows = losses.rows, .row_losses = losses.as<float>(), .scalars = write(op, 0).as<kernels::StepScalars>()};
  }

  const planner::Plan& plan_;
  const models::DecoderShape& shape_;
  OperandViews views_;
  WeightLayout layout_ = WeightLayout::kOutIn;
  bool is_for_cpu_ = true;
};

/// Which kernel an argument struct belongs to.
struct Call {
  kernels::Workers& workers;

  void operator()(const kernels::EmbeddingForward& a) const { kernels::cpu::embedding_forward(a, workers); }
  void operator()(const kernels::EmbeddingBackward& a) const { kernels::cpu::embedding_backward(a, workers); }
  void operator()(const kernels::LayerNormForward& a) const { kernels::cpu::layer_norm_forward(a, workers); }
  void operator()(const kernels::LayerNormBackward& a) const { kernels::cpu::layer_norm_backward(a, workers); }
  void operator()(const kernels::RmsNormForward& a) const { kernels::cpu::rms_norm_forward(a, workers); }
  void operator()(const kernels::RmsNormBackward& a) const { kernels::cpu::rms_norm_backward(a, workers); }
  void operator()(const kernels::LinearForward& a) const { kernels::cpu::linear_forward(a, workers); }
  void operator()(const kernels::LinearBackwardInput& a) const { kernels::cpu::linear_backward_input(a, workers); }
  void operator()(const kernels::LinearBackwardWeight& a) const { kernels::cpu::linear_backward_weight(a, workers); }
  void operator()(const kernels::Rotary& a) const { kernels::cpu::rotary(a, workers); }
  void operator()(const kernels::AttentionForward& a) const { kernels::cpu::attention_forward(a, workers); }
  void operator()(const kernels::AttentionBackward& a) const { kernels::cpu::attention_backward(a, workers); }
  void operator()(const kernels::GeluForward& a) const { kernels::cpu::gelu_forward(a, workers); }
  void operator()(const kernels::GeluBackward& a) const { kernels::cpu::gelu_backward(a, workers); }
  void operator()(const kernels::GatedSiluForward& a) const { kernels::cpu::gated_silu_forward(a, workers); }
  void operator()(const kernels::GatedSiluBackward& a) const { kernels::cpu::gated_silu_backward(a, workers); }
  void operator()(const kernels::Add& a) const { kernels::cpu::add(a, workers); }
  void operator()(const kernels::CrossEntropy& a) const { kernels::cpu::cross_entropy(a, workers); }
  void operator()(const kernels::LossSum& a) const { kernels::cpu::loss_sum(a, workers); }
};

}  // namespace

void BoundProgram::run(kernels::Workers& workers, StepProfile* profile) const {
  for (const ClearedRange& range : clears) std::memset(range.begin, 0, range.bytes);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto start = profile != nullptr ? StepProfile::Clock::now() : StepProfile::Clock::time_point();
    std::visit(Call{workers}, ops[i]);
    if (profile != nullptr) profile->add(kinds[i], StepProfile::Clock::now() - start);
  }
}

BoundProgram bind_program(const planner::Plan& plan, const planner::Task& task, const Arenas& arenas) {
  const auto& work = std::get<planner::ComputeWork>(task.work);
  const ProgramBinder binder(plan, task, arenas);
  BoundProgram bound;
  for (const planner::Access& access : work.clears) {
    bound.clears.push_back({arenas.address(access), static_cast<std::size_t>(access.bytes.count())});
  }
  for (const Op& op : plan.programs.at(work.program).ops) {
    bound.ops.push_back(binder.bind(op));
    bound.kinds.push_back(op.kind);
    bound.scratch.push_back(binder.scratch(op));
  }
  return bound;
}

}  // namespace zeroplan::runtime
