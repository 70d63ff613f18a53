#include "models/program_writer.h"

namespace zeroplan::models {

ProgramWriter::ProgramWriter(std::string name, std::uint64_t alignment) : alignment_(alignment) {
  program_.name = std::move(name);
}

Operand ProgramWriter::tensor(const std::string& name, TensorPlace place, DType dtype, const Shape& shape,
                              std::size_t parameter) {
  for (std::uint32_t i = 0; i < program_.tensors.size(); ++i) {
    const ProgramTensor& t = program_.tensors[i];
    if (t.name != name || t.place != place) continue;
    ZP_CHECK(t.shape == shape && t.dtype == dtype);
    return Operand{.tensor = i};
  }
  ProgramTensor t{name, place, dtype, shape, parameter, Bytes()};
  if (place == TensorPlace::kSaved) {
    t.offset = program_.saved_bytes;
    program_.saved_bytes = round_up(t.offset + t.bytes(), alignment_);
  }
  program_.tensors.push_back(std::move(t));
  return Operand{.tensor = static_cast<std::uint32_t>(program_.tensors.size() - 1)};
}

Operand ProgramWriter::rows(Operand whole, std::uint64_t first, std::uint64_t count) {
  whole.first_row = first;
  whole.rows = count;
  return whole;
}

Operand ProgramWriter::columns(Operand whole, std::uint64_t first, std::uint64_t count) {
  whole.first_column = first;
  whole.columns = count;
  return whole;
}

Bytes ProgramWriter::bytes_of(const Operand& operand) const {
  if (operand.tensor == kNoTensor) return {};
  const ProgramTensor& t = program_.tensors[operand.tensor];
  if (t.shape.rank() != 2 || (operand.rows == 0 && operand.columns == 0)) return t.bytes();
  const std::uint64_t rows = operand.rows == 0 ? t.shape[0] : operand.rows;
  const std::uint64_t columns = operand.columns == 0 ? t.shape[1] : operand.columns;
  return Shape{rows, columns}.elements() * t.dtype;
}

Op& ProgramWriter::add(OpKind kind, const std::string& name, std::vector<Operand> reads, std::vector<Operand> writes,
                       Flops flops) {
  Op op;
  op.kind = kind;
  op.name = name;
  op.flops = flops;
  for (const Operand& read : reads) op.bytes_moved += bytes_of(read);
  for (const Operand& write : writes) op.bytes_moved += bytes_of(write);
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  program_.ops.push_back(std::move(op));
  return program_.ops.back();
}

}  // namespace zeroplan::models
