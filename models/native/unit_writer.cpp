#include "models/native/unit_writer.h"

#include "models/core/gemm_blocking.h"
#include "models/native/cuda_scratch.h"

namespace zeroplan::models {
namespace {

Flops gemm_flops(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  return Flops(zeroplan::detail::checked_mul(2, Shape{m, n, k}.elements().count()));
}

std::vector<std::string> with_suffix(std::initializer_list<std::string_view> stems, std::string_view suffix) {
  std::vector<std::string> names;
  for (const std::string_view stem : stems) names.push_back(std::string(stem) + std::string(suffix));
  return names;
}

std::optional<std::size_t> find_in(const Model& model, const Unit& unit, const std::vector<std::string>& endings) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    for (const std::string& ending : endings) {
      if (model.parameters[unit.parameters[i]].name.ends_with(ending)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

UnitWriter::UnitWriter(const Model& model, std::size_t unit, const ProgramOptions& options, const std::string& program)
    : model_(model),
      unit_(model.units.at(unit)),
      shape_(model.decoder.value()),
      options_(options),
      writer_(program, options.alignment) {}

std::size_t UnitWriter::find(std::initializer_list<std::string_view> endings) const {
  const auto found = find_optional(endings);
  ZP_CHECK(found.has_value());
  return *found;
}

std::optional<std::size_t> UnitWriter::find_optional(std::initializer_list<std::string_view> endings) const {
  return find_in(model_, unit_, with_suffix(endings, ""));
}

Operand UnitWriter::parameter(std::size_t index) {
  const Parameter& p = model_.parameters[unit_.parameters.at(index)];
  return writer_.tensor(p.name, TensorPlace::kParameter, options_.compute, p.shape, index);
}

Operand UnitWriter::gradient(std::size_t index) {
  const Parameter& p = model_.parameters[unit_.parameters.at(index)];
  return writer_.tensor(p.name, TensorPlace::kParameterGradient, options_.gradient, p.shape, index);
}

Operand UnitWriter::residual(TensorPlace place, const std::string& name) {
  return writer_.tensor(name, place, options_.compute, Shape{tokens(), shape_.hidden});
}

Operand UnitWriter::scalars() {
  return writer_.tensor("step scalars", TensorPlace::kScalars, DType::kUint8, Shape{192});
}

LinearLayer UnitWriter::linear(const std::string& name, std::initializer_list<std::string_view> stems, std::uint64_t in,
                               std::uint64_t out) const {
  const auto weight = find_in(model_, unit_, with_suffix(stems, ".weight"));
  ZP_CHECK(weight.has_value());
  return {name, *weight, find_in(model_, unit_, with_suffix(stems, ".bias")), in, out};
}

NormLayer UnitWriter::norm(const std::string& name, std::initializer_list<std::string_view> stems, std::uint64_t width,
                           std::uint64_t rows) const {
  const auto weight = find_in(model_, unit_, with_suffix(stems, ".weight"));
  ZP_CHECK(weight.has_value());
  return {name, *weight, find_in(model_, unit_, with_suffix(stems, ".bias")), width, rows};
}

Program UnitWriter::take() {
  Program program = writer_.take();
  if (!is_for_cpu()) add_cuda_scratch(program, shape_);
  return program;
}

Operand UnitWriter::gemm_workspace(const std::string& op, Bytes bytes) {
  if (!is_for_cpu()) return ProgramWriter::none();
  return writer_.temporary(op + " / workspace", DType::kUint8, Shape{bytes.count()});
}

void UnitWriter::linear_forward(const LinearLayer& layer, Operand x, Operand y, bool accumulate) {
  const std::string op = layer.name + " forward";
  const Operand bias = layer.bias ? parameter(*layer.bias) : ProgramWriter::none();
  const std::uint64_t m = x.rows == 0 ? writer_.describe(x).shape[0] : x.rows;
  writer_
      .add(OpKind::kLinearForward, op, {x, parameter(layer.weight), bias},
           {y, gemm_workspace(op, linear_forward_workspace_bytes(m, layer.in, layer.out, options_.compute))},
           gemm_flops(m, layer.out, layer.in))
      .accumulate = accumulate;
}

void UnitWriter::linear_backward_input(const LinearLayer& layer, Operand d_y, Operand d_x, bool accumulate) {
  const std::string op = layer.name + " backward input";
  const std::uint64_t m = d_y.rows == 0 ? writer_.describe(d_y).shape[0] : d_y.rows;
  writer_
      .add(OpKind::kLinearBackwardInput, op, {d_y, parameter(layer.weight)},
           {d_x, gemm_workspace(op, linear_backward_input_workspace_bytes(m, layer.in, layer.out, options_.compute))},
           gemm_flops(m, layer.in, layer.out))
      .accumulate = accumulate;
}

void UnitWriter::linear_backward_weight(const LinearLayer& layer, Operand d_y, Operand x, bool accumulate) {
  const std::string op = layer.name + " backward weight";
  const Operand d_bias = layer.bias ? gradient(*layer.bias) : ProgramWriter::none();
  const std::uint64_t m = d_y.rows == 0 ? writer_.describe(d_y).shape[0] : d_y.rows;
  // Heads are kept as [words, width] in every family.
  const bool in_out = shape_.weights_in_by_out && unit_.kind != UnitKind::kHead;
  const WeightLayout layout = in_out ? WeightLayout::kInOut : WeightLayout::kOutIn;
  const Bytes workspace = linear_backward_weight_workspace_bytes(m, layer.in, layer.out, layout, options_.gradient);
  writer_
      .add(OpKind::kLinearBackwardWeight, op, {d_y, x}, {gradient(layer.weight), d_bias, gemm_workspace(op, workspace)},
           gemm_flops(layer.out, layer.in, m))
      .accumulate_gradient = accumulate;
}

Operand UnitWriter::norm_mean(const NormLayer& layer, TensorPlace place, const std::string& suffix) {
  if (shape_.norm == NormKind::kRmsNorm) return ProgramWriter::none();
  return writer_.tensor(layer.name + ".mean" + suffix, place, DType::kFp32, Shape{layer.rows});
}

Operand UnitWriter::norm_rstd(const NormLayer& layer, TensorPlace place, const std::string& suffix) {
  return writer_.tensor(layer.name + ".rstd" + suffix, place, DType::kFp32, Shape{layer.rows});
}

void UnitWriter::norm_forward(const NormLayer& layer, Operand x, Operand y, Operand mean, Operand rstd) {
  const std::string op = layer.name + " forward";
  if (mean.tensor == kNoTensor) {
    writer_.add(OpKind::kRmsNormForward, op, {x, parameter(layer.weight)}, {y, rstd});
  } else {
    writer_.add(OpKind::kLayerNormForward, op, {x, parameter(layer.weight), parameter(layer.bias.value())},
                {y, mean, rstd});
  }
}

void UnitWriter::norm_backward(const NormLayer& layer, Operand d_y, Operand x, Operand mean, Operand rstd, Operand d_x,
                               bool accumulate) {
  const std::string op = layer.name + " backward";
  Op* added = nullptr;
  if (mean.tensor == kNoTensor) {
    added = &writer_.add(OpKind::kRmsNormBackward, op, {d_y, x, parameter(layer.weight), rstd},
                         {d_x, gradient(layer.weight)});
  } else {
    added = &writer_.add(OpKind::kLayerNormBackward, op, {d_y, x, parameter(layer.weight), mean, rstd},
                         {d_x, gradient(layer.weight), gradient(layer.bias.value())});
  }
  added->accumulate = accumulate;
  added->accumulate_gradient = options_.accumulate_gradients;
}

}  // namespace zeroplan::models
