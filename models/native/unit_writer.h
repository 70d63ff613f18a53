// What the programs of all native units share: parameters by role, norms and linear layers. Main type: UnitWriter.
#pragma once

#include <initializer_list>
#include <optional>

#include "models/model.h"
#include "models/native/decoder_programs.h"
#include "models/program_writer.h"

namespace zeroplan::models {

/// A linear layer of a unit: its parameters and widths.
struct LinearLayer {
  std::string name;        ///< "attention.q"
  std::size_t weight = 0;  ///< index into the unit's parameters
  std::optional<std::size_t> bias;
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

/// A norm with what it saves.
struct NormLayer {
  std::string name;  ///< "attention.norm"
  std::size_t weight = 0;
  std::optional<std::size_t> bias;  ///< layer norm only
  std::uint64_t width = 0;
  std::uint64_t rows = 0;
};

/// A ProgramWriter that knows the model, the unit and the options.
class UnitWriter {
 public:
  UnitWriter(const Model& model, std::size_t unit, const ProgramOptions& options, const std::string& program);

  const DecoderShape& shape() const { return shape_; }
  const ProgramOptions& options() const { return options_; }
  std::uint64_t tokens() const { return options_.batch * options_.seq; }
  ProgramWriter& out() { return writer_; }

  /// Index within the unit of the parameter whose name ends in one of these. \throws Error{kInternal}
  std::size_t find(std::initializer_list<std::string_view> endings) const;
  std::optional<std::size_t> find_optional(std::initializer_list<std::string_view> endings) const;

  Operand parameter(std::size_t index);
  Operand gradient(std::size_t index);
  /// [T, h] of the compute type.
  Operand residual(TensorPlace place, const std::string& name);
  Operand scalars();

  LinearLayer linear(const std::string& name, std::initializer_list<std::string_view> stems, std::uint64_t in,
                     std::uint64_t out) const;
  NormLayer norm(const std::string& name, std::initializer_list<std::string_view> stems, std::uint64_t width,
                 std::uint64_t rows) const;

  void linear_forward(const LinearLayer& layer, Operand x, Operand y, bool accumulate = false);
  void linear_backward_input(const LinearLayer& layer, Operand d_y, Operand d_x, bool accumulate);
  void linear_backward_weight(const LinearLayer& layer, Operand d_y, Operand x, bool accumulate);
  /// Writes y and the statistics; `mean` is none() for an RMS norm.
  void norm_forward(const NormLayer& layer, Operand x, Operand y, Operand mean, Operand rstd);
  void norm_backward(const NormLayer& layer, Operand d_y, Operand x, Operand mean, Operand rstd, Operand d_x,
                     bool accumulate);
  /// Statistics of a norm, kept or scratch. The mean is none() for an RMS norm.
  Operand norm_mean(const NormLayer& layer, TensorPlace place, const std::string& suffix);
  Operand norm_rstd(const NormLayer& layer, TensorPlace place, const std::string& suffix);

  bool is_for_cpu() const { return options_.kernels == KernelSet::kCpu; }
  Program take();

 private:
  Operand gemm_workspace(const std::string& op, Bytes bytes);

  const Model& model_;
  const Unit& unit_;
  const DecoderShape& shape_;
  ProgramOptions options_;
  ProgramWriter writer_;
};

}  // namespace zeroplan::models
