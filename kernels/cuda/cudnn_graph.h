// A graph of cuDNN operations on four-dimensional tensors, and the plan that runs it. Main types: CudnnGraph (built
// once), CudnnPlan (run many times). Depends on cudnn_library.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "kernels/cuda/cudnn_library.h"

namespace zeroplan::kernels::cuda {

/// Extents or strides, in elements.
using CudnnExtents = std::array<std::int64_t, 4>;

/// Number of a tensor in its graph, by which its data is bound.
using CudnnTensor = std::int64_t;

/// Data of one tensor for one run; of a scalar: on the host.
struct CudnnBinding {
  CudnnTensor tensor;
  void* data;
};

/// An engine with its configuration, ready to run.
class CudnnPlan {
 public:
  CudnnPlan(const CudnnLibrary& library, CudnnDescriptor plan, std::size_t workspace_bytes)
      : library_(&library), plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  void run(std::span<const CudnnBinding> bindings, void* workspace, cudaStream_t stream) const;

 private:
  const CudnnLibrary* library_;
  CudnnDescriptor plan_;
  std::size_t workspace_bytes_;
};

/// Operations are added in order; intermediate tensors need no memory.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnLibrary& library) : library_(&library) {}

  /// A tensor in device memory, 16-byte aligned.
  CudnnTensor tensor(cudnnDataType_t type, const CudnnExtents& extents, const CudnnExtents& strides);
  /// An intermediate.
  CudnnTensor intermediate(cudnnDataType_t type, const CudnnExtents& extents, const CudnnExtents& strides);
  /// An fp32 scalar, given on the host with each run.
  CudnnTensor scalar();

  void matmul(CudnnTensor a, CudnnTensor b, CudnnTensor c);
  void reduce(cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor y);
  void reshape(CudnnTensor x, CudnnTensor y);
  /// y = mode(x), mode(x, b), or x where t and b elsewhere. `axis` belongs to CUDNN_POINTWISE_GEN_INDEX.
  struct Pointwise {
    cudnnPointwiseMode_t mode;
    CudnnTensor x;
    CudnnTensor y;
    std::optional<CudnnTensor> b = std::nullopt;
    std::optional<CudnnTensor> t = std::nullopt;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    std::optional<std::int64_t> axis = std::nullopt;
  };
  void pointwise(const Pointwise& operation);

  /// The heuristics' first deterministic engine that takes the graph and needs no more than `workspace_bytes`, or none.
  /// \throws Error{kDevice} if the graph itself is refused
  std::optional<CudnnPlan> plan(std::size_t workspace_bytes);

 private:
  CudnnTensor add_tensor(cudnnDataType_t type, const CudnnExtents& extents, const CudnnExtents& strides,
                         bool is_virtual, bool is_scalar);
  const CudnnDescriptor& at(CudnnTensor tensor) const { return tensors_[static_cast<std::size_t>(tensor - 1)]; }

  const CudnnLibrary* library_;
  std::deque<CudnnDescriptor> tensors_;
  std::deque<CudnnDescriptor> descriptors_;  ///< of what the operations do
  std::deque<CudnnDescriptor> operations_;
};

}  // namespace zeroplan::kernels::cuda
