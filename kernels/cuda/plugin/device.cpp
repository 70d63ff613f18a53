#include "kernels/cuda/plugin/device.h"

#include <numeric>

#include <cublasLt.h>
#include <fmt/format.h>

#include "kernels/cuda/operators.h"
#include "kernels/cuda/plugin/words.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cuda {
namespace {

/// The oldest cards that the kernels are compiled for: compute capability 8.0.
constexpr int kLeastCapability = 8;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// The largest scratch of each kind of call.
struct WorkspaceBytes {
  template <class Operator>
  std::size_t operator()(const Operator& args) const {
    return cuda::workspace_bytes(args);
  }
  std::size_t operator()(const SquaresInto& a) const { return cuda::workspace_bytes(a.squares); }
  std::size_t operator()(const LambNormsInto& a) const { return cuda::workspace_bytes(a.norms); }
  std::size_t operator()(const RuleUpdate& a) const { return cuda::workspace_bytes(a.step); }
};

struct Prepare {
  Context& context;

  template <class Operator>
  void operator()(const Operator& args) const {
    cuda::prepare(args, context);
  }
};

Error no_room(const char* what, std::size_t bytes, cudaError_t status) {
  return Error(ErrorCode::kDoesNotFit, fmt::format("{} of {} bytes: {}", what, bytes, cudaGetErrorString(status)))
      .hint("plan for less memory (--budget), or free some");
}

}  // namespace

CudaDevice::CudaDevice(const DeviceOptions& options) : index_(options.index) {
  describe();
  make_current();
  require(cudaFree(nullptr), "opening the card");
  memory_at_start_ = memory();
  ContextOptions choices;
  choices.allow_tf32 = options.allow_tf32;
  choices.use_cudnn = options.use_cudnn;
  context_ = std::make_unique<Context>(choices);
  const auto version = cublasLtGetVersion();
  description_.matrix_library = fmt::format("cuBLASLt {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
  description_.has_attention_library = context_->cudnn() != nullptr;
  description_.attention_library =
      description_.has_attention_library ? "cuDNN " + context_->cudnn_note() : context_->cudnn_note();
}

void CudaDevice::describe() {
  DeviceDescription& d = description_;
  require(cudaRuntimeGetVersion(&d.runtime_version), "cudaRuntimeGetVersion");
  require(cudaDriverGetVersion(&d.driver_version), "cudaDriverGetVersion");
  if (d.driver_version == 0) {
    throw Error(ErrorCode::kDevice, "no NVIDIA driver answers").hint("train on the CPU: a plan with --backend cpu");
  }
  // Within a major version a driver serves newer runtimes (CUDA's minor version compatibility).
  if (d.driver_version / 1000 < d.runtime_version / 1000) {
    throw Error(ErrorCode::kDevice, fmt::format("the driver serves CUDA {}, this back end needs {}",
                                                version_text(d.driver_version), version_text(d.runtime_version)))
        .hint("install a newer driver, or make the plan with --backend cpu");
  }
  int cards = 0;
  const cudaError_t counted = cudaGetDeviceCount(&cards);
  if (counted != cudaSuccess || index_ >= cards) {
    throw Error(ErrorCode::kDevice, counted != cudaSuccess ? fmt::format("no GPU: {}", cudaGetErrorString(counted))
                                                           : fmt::format("GPU {}: this machine has {}", index_, cards))
        .hint("train on the CPU: a plan with --backend cpu");
  }
  cudaDeviceProp properties = {};
  require(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
  d.name = properties.name;
  d.capability_major = properties.major;
  d.capability_minor = properties.minor;
  if (d.capability_major < kLeastCapability) {
    throw Error(ErrorCode::kDevice, fmt::format("{} has compute capability {}.{}, expected {}.0 or newer", d.name,
                                                d.capability_major, d.capability_minor, kLeastCapability))
        .hint("train on the CPU: a plan with --backend cpu");
  }
}

void CudaDevice::make_current() {
  require(cudaSetDevice(index_), "cudaSetDevice");
}

DeviceMemory CudaDevice::memory() const {
  DeviceMemory memory;
  require(cudaMemGetInfo(&memory.free, &memory.total), "cudaMemGetInfo");
  return memory;
}

void* CudaDevice::allocate(std::size_t bytes) {
  void* address = nullptr;
  const cudaError_t status = cudaMalloc(&address, bytes);
  if (status != cudaSuccess) throw no_room("device memory", bytes, status);
  return address;
}
void CudaDevice::release(void* device_memory) noexcept {
  cudaFree(device_memory);
}
void* CudaDevice::allocate_host(std::size_t bytes) {
  void* address = nullptr;
  const cudaError_t status = cudaHostAlloc(&address, bytes, cudaHostAllocDefault);
  if (status != cudaSuccess) throw no_room("pinned host memory", bytes, status);
  return address;
}
void CudaDevice::release_host(void* host_memory) noexcept {
  cudaFreeHost(host_memory);
}

std::size_t CudaDevice::count_words(const void* begin, std::uint32_t value, std::size_t words) {
  CudaStream stream(*context_);
  // The counters lie in pinned memory, which the card reaches: counting must not need memory of the card.
  auto* const counts = static_cast<std::uint64_t*>(allocate_host(kCountParts * sizeof(std::uint64_t)));
  cuda::count_words(static_cast<const std::uint32_t*>(begin), value, words, counts, stream.get());
  const cudaError_t status = cudaStreamSynchronize(stream.get());
  const auto result = static_cast<std::size_t>(std::accumulate(counts, counts + kCountParts, std::uint64_t{0}));
  release_host(counts);
  require(status, "counting words");
  return result;
}

void CudaDevice::prepare(const DeviceCall& call) {
  std::visit(Prepare{*context_}, call.op);
}

std::size_t CudaDevice::workspace_bytes(const DeviceOp& op) const {
  return std::visit(WorkspaceBytes(), op);
}

}  // namespace zeroplan::kernels::cuda
