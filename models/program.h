// Op lists of units. Purpose: what the compute lane does for one unit, op by op, over named tensors, so that the
// planner can pack the scratch memory, the cost model can time it and the runtime can execute it. Main types: OpKind,
// ProgramTensor, Op, Program. Must not depend on planner, kernels or runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/shape.h"
#include "models/core/units.h"

namespace zeroplan::models {

/// What an op does. Behind each: its operands in order, reads -> writes; T tokens, h width. Operands in brackets may be
/// kNoTensor. A trailing "workspace" is scratch that the kernel asked for (see models/core/gemm_blocking.h).
enum class OpKind {
  kEmbeddingForward,      ///< tokens, table [V,h], [position table] -> out [T,h]
  kEmbeddingBackward,     ///< tokens, d_out -> d_table, [d_position], workspace
  kLayerNormForward,      ///< x, weight, bias -> y, mean [T], rstd [T]
  kLayerNormBackward,     ///< d_y, x, weight, mean, rstd -> d_x, d_weight, d_bias
  kRmsNormForward,        ///< x, weight -> y, rstd [rows]
  kRmsNormBackward,       ///< d_y, x, weight, rstd -> d_x, d_weight
  kLinearForward,         ///< x [T,in], weight, [bias] -> y [T,out], workspace
  kLinearBackwardInput,   ///< d_y [T,out], weight -> d_x [T,in], workspace
  kLinearBackwardWeight,  ///< d_y, x -> d_weight, [d_bias], workspace
  kRotaryForward,         ///< cos/sin table, x [T, heads x head_size] -> x in place
  kRotaryBackward,        ///< cos/sin table, d_x -> d_x in place
  kAttentionForward,      ///< q, k, v -> out [T, heads x head_size], lse [T, heads]
  kAttentionBackward,     ///< d_out, q, k, v, out, lse -> d_q, d_k, d_v, workspace
  kGeluForward,           ///< x -> y (tanh form)
  kGeluBackward,          ///< d_y, x -> d_x
  kGatedSiluForward,      ///< gate, up -> y
  kGatedSiluBackward,     ///< d_y, gate, up -> d_gate, d_up
  kResidualAdd,           ///< a, b -> out = a + b; out may be a
  kCrossEntropy,  ///< labels, logits [rows,V], scalars -> logits in place become their gradient (training), row losses
  kLossSum,       ///< row losses [T], scalars -> scalars: adds the rows' losses in a fixed order
};

std::string_view to_string(OpKind kind);

/// Where a tensor of a program lives. The planner binds each place of a task to a buffer.
enum class TensorPlace {
  kParameter,          ///< `parameter` of the model, inside the buffer of its shard group
  kParameterGradient,  ///< likewise, inside the gradient buffer
  kInput,              ///< residual stream that enters the unit
  kOutput,             ///< residual stream that leaves it
  kResidualGradient,   ///< gradient of the residual stream, turned from that of the output into that of the input in
                       ///< place
  kSaved,              ///< kept from the forward to the backward program, at `offset` of the unit's saved buffer
  kTemporary,          ///< scratch, packed into the frame at `offset`
  kTokens,             ///< int32 [T]
  kLabels,             ///< int32 [T], -100 = not counted
  kScalars,            ///< the step scalars
  kRotaryTable,        ///< fp32 [positions, head_size]: head_size/2 cosines, then as many sines
};

/// A named tensor of a program.
struct ProgramTensor {
  std::string name;  ///< "attention.out"
  TensorPlace place = TensorPlace::kTemporary;
  DType dtype = DType::kFp32;
  Shape shape;
  std::size_t parameter = 0;  ///< kParameter, kParameterGradient: index into the unit's parameters
  Bytes offset;               ///< kSaved, kTemporary: within the saved buffer or the frame

  Bytes bytes() const { return shape.elements() * dtype; }
};

constexpr std::uint32_t kNoTensor = 0xffffffffu;

/// A tensor, or the part of its rows from `first_row` on (pieces of the head).
struct Operand {
  std::uint32_t tensor = kNoTensor;  ///< index into Program::tensors
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;  ///< 0: all
  std::uint64_t first_column =
      0;  ///< views of fused projections: columns [first_column, first_column + columns) of each row
  std::uint64_t columns = 0;  ///< 0: all
};

/// One operation.
struct Op {
  OpKind kind = OpKind::kResidualAdd;
  std::string name;  ///< "attention.q"
  std::vector<Operand> reads;
  std::vector<Operand> writes;
  bool accumulate = false;           ///< the first written operand is added to (backward input, norm backward)
  bool accumulate_gradient = false;  ///< parameter gradients are added to
  Flops flops;
  Bytes bytes_moved;  ///< reads and writes of memory in the ideal case
};

/// An op list with its tensors.
struct Program {
  std::string name;  ///< unique within a plan: "block forward"
  std::vector<ProgramTensor> tensors;
  std::vector<Op> ops;
  Bytes frame_bytes;        ///< scratch after packing
  Bytes lower_bound_bytes;  ///< most scratch live at one op
  Bytes saved_bytes;        ///< what it saves (forward) or reads saved (backward)

  Flops flops() const;
  Bytes bytes_moved() const;
};

}  // namespace zeroplan::models
