#include "kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace zeroplan::kernels::cuda {
namespace {

/// The configurations that the heuristics propose, best first.
std::vector<CudnnDescriptor> proposals(const CudnnLibrary& library, const CudnnDescriptor& graph,
                                       cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::vector<CudnnDescriptor> configurations;
  if (!heuristics.try_finalize()) return configurations;
  std::int64_t count = 0;
  library.check(library.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                      &count, nullptr),
                "the number of engines");
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.emplace_back(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(configurations.back().get());
  }
  std::int64_t found = 0;
  library.check(library.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      count, &found, handles.data()),
                "the engines");
  while (static_cast<std::int64_t>(configurations.size()) > found) configurations.pop_back();
  return configurations;
}

bool is_deterministic(const CudnnLibrary& library, const CudnnDescriptor& configuration) {
  CudnnDescriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t found = 0;
  library.check(library.get_attribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      1, &found, &handle),
                "an engine");
  std::array<cudnnBackendNumericalNote_t, 32> notes{};
  library.check(library.get_attribute(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(),
                                      &found, notes.data()),
                "an engine's notes");
  const auto end = notes.begin() + std::min<std::int64_t>(found, notes.size());
  return std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end;
}

std::optional<CudnnPlan> plan_of(const CudnnLibrary& library, const CudnnDescriptor& configuration) {
  CudnnDescriptor plan(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library.handle());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (!plan.try_finalize()) return std::nullopt;
  std::int64_t bytes = 0;
  std::int64_t found = 0;
  library.check(
      library.get_attribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &found, &bytes),
      "a plan's workspace");
  return CudnnPlan(library, std::move(plan), static_cast<std::size_t>(bytes));
}

}  // namespace

void CudnnPlan::run(std::span<const CudnnBinding> bindings, void* workspace, cudaStream_t stream) const {
  std::array<std::int64_t, 16> numbers{};
  std::array<void*, 16> data{};
  const std::size_t count = std::min(bindings.size(), numbers.size());
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = bindings[i].tensor;
    data[i] = bindings[i].data;
  }
  CudnnDescriptor pack(*library_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(count), numbers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(count), data.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize("a variant pack");
  library_->check(library_->set_stream(library_->handle(), stream), "the stream");
  library_->check(library_->execute(library_->handle(), plan_.get(), pack.get()), "a plan");
}

CudnnTensor CudnnGraph::add_tensor(cudnnDataType_t type, const CudnnExtents& extents, const CudnnExtents& strides,
                                   bool is_virtual, bool is_scalar) {
  const auto number = static_cast<CudnnTensor>(tensors_.size()) + 1;
  CudnnDescriptor& tensor = tensors_.emplace_back(*library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t alignment = 16;
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extents.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, is_scalar);
  tensor.finalize("a tensor");
  return number;
}

CudnnTensor CudnnGraph::tensor(cudnnDataType_t type, const CudnnExtents& extents, const CudnnExtents& strides) {
  return add_tensor(type, extents, strides, false, false);
}

CudnnTensor CudnnGraph::intermediate(cudnnDataType_t type, const CudnnExtents& extents, const CudnnExtents& strides) {
  return add_tensor(type, extents, strides, true, false);
}

CudnnTensor CudnnGraph::scalar() {
  return add_tensor(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

void CudnnGraph::matmul(CudnnTensor a, CudnnTensor b, CudnnTensor c) {
  CudnnDescriptor& what = descriptors_.emplace_back(*library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  what.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  what.finalize("a product's kind");
  CudnnDescriptor& operation = operations_.emplace_back(*library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(c));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
  operation.finalize("a product");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor y) {
  CudnnDescriptor& what = descriptors_.emplace_back(*library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  what.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation);
  what.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  what.finalize("a reduction's kind");
  CudnnDescriptor& reduction = operations_.emplace_back(*library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
  reduction.finalize("a reduction");
}

void CudnnGraph::reshape(CudnnTensor x, CudnnTensor y) {
  CudnnDescriptor& operation = operations_.emplace_back(*library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  operation.finalize("a reshape");
}

void CudnnGraph::pointwise(const Pointwise& operation) {
  CudnnDescriptor& what = descriptors_.emplace_back(*library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, operation.mode);
  what.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, operation.compute);
  if (operation.axis) what.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *operation.axis);
  what.finalize("a pointwise operation's kind");
  CudnnDescriptor& node = operations_.emplace_back(*library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  node.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  node.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(operation.x));
  node.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(operation.y));
  if (operation.b) node.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(*operation.b));
  if (operation.t) node.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(*operation.t));
  node.finalize("a pointwise operation");
}

std::optional<CudnnPlan> CudnnGraph::plan(std::size_t workspace_bytes) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  CudnnDescriptor graph(*library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library_->handle());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(operations.size()),
            operations.data());
  graph.finalize("a graph");
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const CudnnDescriptor& configuration : proposals(*library_, graph, mode)) {
      if (!is_deterministic(*library_, configuration)) continue;
      std::optional<CudnnPlan> plan = plan_of(*library_, configuration);
      if (plan && plan->workspace_bytes() <= workspace_bytes) return plan;
    }
  }
  return std::nullopt;
}

}  // namespace zeroplan::kernels::cuda
