// Writes a Program op by op. Purpose: tensors by name, operands as views, FLOPs and bytes counted where the op is
// stated. Main type: ProgramWriter. Depends on models/program.
#pragma once

#include <string>
#include <vector>

#include "models/program.h"

namespace zeroplan::models {

/// Builds one program. Saved tensors are laid out one after another; temporaries get their offsets when the frame is
/// packed.
class ProgramWriter {
 public:
  /// \param alignment  of saved tensors within the saved buffer, in bytes
  ProgramWriter(std::string name, std::uint64_t alignment);

  /// The tensor of that name, made on the first call.
  Operand tensor(const std::string& name, TensorPlace place, DType dtype, const Shape& shape,
                 std::size_t parameter = 0);
  Operand temporary(const std::string& name, DType dtype, const Shape& shape) {
    return tensor(name, TensorPlace::kTemporary, dtype, shape);
  }

  /// Some rows, some columns of a tensor.
  static Operand rows(Operand whole, std::uint64_t first, std::uint64_t count);
  static Operand columns(Operand whole, std::uint64_t first, std::uint64_t count);
  static constexpr Operand none() { return {}; }

  /// Appends an op; its ideal memory traffic is the bytes of its operands.
  Op& add(OpKind kind, const std::string& name, std::vector<Operand> reads, std::vector<Operand> writes,
          Flops flops = {});

  const ProgramTensor& describe(Operand operand) const { return program_.tensors.at(operand.tensor); }
  Program take() { return std::move(program_); }

 private:
  Bytes bytes_of(const Operand& operand) const;

  Program program_;
  std::uint64_t alignment_;
};

}  // namespace zeroplan::models
