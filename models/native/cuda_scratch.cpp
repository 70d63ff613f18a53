#include "models/native/cuda_scratch.h"

#include <algorithm>

#include "models/core/cuda_workspace.h"

namespace zeroplan::models {
namespace {

/// Rows and columns of an operand.
struct Extent {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

Extent extent_of(const Program& program, const Operand& operand) {
  const Shape& shape = program.tensors.at(operand.tensor).shape;
  const std::uint64_t all_rows = shape.rank() == 0 ? 1 : shape[0];
  const std::uint64_t width = all_rows == 0 ? 0 : shape.elements().count() / all_rows;
  return {operand.rows == 0 ? all_rows : operand.rows, operand.columns == 0 ? width : operand.columns};
}

bool is_present(const std::vector<Operand>& operands, std::size_t i) {
  return i < operands.size() && operands[i].tensor != kNoTensor;
}

/// Of a norm over rows as wide as its weight.
Bytes norm_scratch(const Program& program, const Op& op, std::uint64_t results) {
  const std::uint64_t width = program.tensors.at(op.reads.at(2).tensor).shape.elements().count();
  const std::uint64_t rows = program.tensors.at(op.reads.at(1).tensor).shape.elements().count() / width;
  return cuda_column_sum_workspace_bytes(rows, width, results);
}

Bytes scratch_of(const Program& program, const Op& op, const DecoderShape& shape) {
  switch (op.kind) {
    case OpKind::kEmbeddingBackward: {
      const std::uint64_t tokens = program.tensors.at(op.reads.at(0).tensor).shape.elements().count();
      return cuda_embedding_backward_workspace_bytes(tokens);
    }
    case OpKind::kLayerNormBackward:
      return norm_scratch(program, op, 2);
    case OpKind::kRmsNormBackward:
      return norm_scratch(program, op, 1);
    case OpKind::kLinearForward:
    case OpKind::kLinearBackwardInput:
      return kCudaGemmWorkspace;
    case OpKind::kLinearBackwardWeight: {
      if (!is_present(op.writes, 1)) return kCudaGemmWorkspace;
      const Extent d_y = extent_of(program, op.reads.at(0));
      return std::max(kCudaGemmWorkspace, cuda_column_sum_workspace_bytes(d_y.rows, d_y.columns, 1));
    }
    case OpKind::kAttentionForward: {
      const Operand& q = op.reads.at(0);
      return cuda_attention_forward_workspace_bytes(extent_of(program, q).rows, shape.heads,
                                                    program.tensors.at(q.tensor).dtype);
    }
    case OpKind::kAttentionBackward: {
      const ProgramTensor& q = program.tensors.at(op.reads.at(1).tensor);
      return cuda_attention_backward_workspace_bytes(extent_of(program, op.reads.at(1)).rows, shape.heads,
                                                     shape.head_size, q.dtype);
    }
    default:
      return Bytes();
  }
}

}  // namespace

void add_cuda_scratch(Program& program, const DecoderShape& shape) {
  for (Op& op : program.ops) {
    const Bytes bytes = scratch_of(program, op, shape);
    if (bytes == Bytes()) continue;
    ProgramTensor scratch;
    scratch.name = op.name + " / workspace";
    scratch.place = TensorPlace::kTemporary;
    scratch.dtype = DType::kUint8;
    scratch.shape = Shape{bytes.count()};
    Operand operand;
    operand.tensor = static_cast<std::uint32_t>(program.tensors.size());
    program.tensors.push_back(std::move(scratch));
    op.writes.push_back(operand);
  }
}

}  // namespace zeroplan::models
