// What the CUDA operators keep between calls. Purpose: library handles, and the algorithm or plan chosen for each
// shape, so that a step neither searches nor allocates. Main types: ContextOptions, Context, Launch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

namespace zeroplan::kernels::cuda {

class MatrixProducts;
class CudnnAttention;

/// Choices of a run.
struct ContextOptions {
  bool allow_tf32 = false;                              ///< fp32 matrix products may round operands to TF32
  bool use_cudnn = true;                                ///< attention through cuDNN where it is found
  std::size_t workspace_bytes = std::size_t{32} << 20;  ///< what every Launch offers at least
};

/// One per rank; belongs to the device that is current when it is made, and to one thread at a time.
class Context {
 public:
  /// Opens cuBLASLt, and cuDNN where it is found. \throws Error{kDevice}
  explicit Context(const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const ContextOptions& options() const { return options_; }
  MatrixProducts& products() { return *products_; }
  /// cuDNN's attention, or none.
  CudnnAttention* cudnn() { return cudnn_.get(); }
  /// "9.19.0", or why there is none: "libcudnn.so.9: cannot open shared object file".
  const std::string& cudnn_note() const { return cudnn_note_; }

 private:
  ContextOptions options_;
  std::unique_ptr<MatrixProducts> products_;
  std::unique_ptr<CudnnAttention> cudnn_;
  std::string cudnn_note_;
};

/// Where a call is enqueued. Nothing here waits for the device or allocates device memory.
struct Launch {
  cudaStream_t stream = nullptr;
  Context* context = nullptr;
  void* workspace = nullptr;  ///< 256-byte aligned; planned scratch, free again for the next call on the stream
  std::size_t workspace_bytes = 0;
};

}  // namespace zeroplan::kernels::cuda
