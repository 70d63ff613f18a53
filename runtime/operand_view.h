// Where an operand of an op lies in memory. Main types: OperandView, OperandViews. Depends on planner/plan.
#pragma once

#include "runtime/arena.h"

namespace zeroplan::runtime {

/// Rows and columns of a tensor in an arena. An operand that an op goes without has no data.
struct OperandView {
  std::byte* data = nullptr;
  DType dtype = DType::kFp32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;  ///< elements from row to row

  std::size_t elements() const { return rows * columns; }
  Bytes bytes() const { return Elements(elements()) * dtype; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// Resolves the operands of one compute task.
class OperandViews {
 public:
  /// \param task  its work is a ComputeWork; all three must outlive this
  OperandViews(const planner::Plan& plan, const planner::Task& task, const Arenas& arenas);

  /// \throws Error{kInvalidInput} if it lies outside of the buffer that the task binds to its place
  OperandView view(const models::Operand& operand) const;
  /// Whether an operand is scratch memory that a kernel asked for.
  bool is_scratch(const models::Operand& operand) const;

 private:
  std::byte* address(const models::ProgramTensor& tensor) const;
  std::byte* inside(planner::BufferId buffer, Bytes offset, const models::ProgramTensor& tensor) const;

  const planner::Plan& plan_;
  const planner::Task& task_;
  const planner::ComputeWork& work_;
  const models::Program& program_;
  const Arenas& arenas_;
};

}  // namespace zeroplan::runtime
