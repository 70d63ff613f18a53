#include "runtime/operand_view.h"

#include <fmt/format.h>

namespace zeroplan::runtime {

using models::ProgramTensor;
using models::TensorPlace;

OperandViews::OperandViews(const planner::Plan& plan, const planner::Task& task, const Arenas& arenas)
    : plan_(plan),
      task_(task),
      work_(std::get<planner::ComputeWork>(task.work)),
      program_(plan.programs.at(work_.program)),
      arenas_(arenas) {}

OperandView OperandViews::view(const models::Operand& operand) const {
  if (operand.tensor == models::kNoTensor) return {};
  const ProgramTensor& tensor = program_.tensors.at(operand.tensor);
  const std::size_t all_rows = tensor.shape.rank() == 0 ? 1 : tensor.shape[0];
  const std::size_t width = all_rows == 0 ? 0 : tensor.shape.elements().count() / all_rows;
  OperandView view;
  view.dtype = tensor.dtype;
  view.rows = operand.rows == 0 ? all_rows : operand.rows;
  view.columns = operand.columns == 0 ? width : operand.columns;
  view.stride = width;
  if (operand.first_row + view.rows > all_rows || operand.first_column + view.columns > width) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("program {}: an operand exceeds tensor {}", program_.name, tensor.name));
  }
  view.data = address(tensor) + (operand.first_row * width + operand.first_column) * size_of(tensor.dtype);
  return view;
}

bool OperandViews::is_scratch(const models::Operand& operand) const {
  if (operand.tensor == models::kNoTensor) return false;
  const ProgramTensor& tensor = program_.tensors.at(operand.tensor);
  return tensor.place == TensorPlace::kTemporary && tensor.name.ends_with(" / workspace");
}

std::byte* OperandViews::inside(planner::BufferId buffer, Bytes offset, const ProgramTensor& tensor) const {
  if (buffer == planner::kNoBuffer || offset + tensor.bytes() > arenas_.size(buffer)) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("task {}: tensor {} of {} bytes at {} has no room in its buffer",
                                                      task_.key, tensor.name, tensor.bytes().count(), offset.count()))
        .hint("the plan is damaged or was made by another version: make it again");
  }
  return arenas_.address(buffer) + offset.count();
}

std::byte* OperandViews::address(const ProgramTensor& tensor) const {
  switch (tensor.place) {
    case TensorPlace::kInput:
      return inside(work_.input, Bytes(), tensor);
    case TensorPlace::kOutput:
      return inside(work_.output, Bytes(), tensor);
    case TensorPlace::kResidualGradient:
      return inside(work_.residual_gradient, Bytes(), tensor);
    case TensorPlace::kSaved:
      return inside(work_.saved, tensor.offset, tensor);
    case TensorPlace::kTemporary:
      return inside(task_.frame, tensor.offset, tensor);
    case TensorPlace::kTokens:
      return inside(work_.tokens, Bytes(), tensor);
    case TensorPlace::kLabels:
      return inside(work_.labels, Bytes(), tensor);
    case TensorPlace::kScalars:
      return inside(work_.scalars, Bytes(), tensor);
    case TensorPlace::kRotaryTable:
      return inside(work_.rotary_table, Bytes(), tensor);
    case TensorPlace::kParameter:
    case TensorPlace::kParameterGradient: {
      const std::size_t parameter = plan_.model.units.at(work_.unit).parameters.at(tensor.parameter);
      const planner::ParameterPlace& place = plan_.partition.places.at(parameter);
      for (const planner::GroupBinding& binding : work_.groups) {
        if (binding.group != place.group) continue;
        const bool is_gradient = tensor.place == TensorPlace::kParameterGradient;
        return inside(is_gradient ? binding.gradients : binding.parameters, place.offset * tensor.dtype, tensor);
      }
      return inside(planner::kNoBuffer, Bytes(), tensor);
    }
  }
  return nullptr;
}

}  // namespace zeroplan::runtime
